//! How a kernel gets its arguments: as parameters of their own, or in a structure with padding.

use crate::program::{Access, Action, Kernel, Param, Program, View};

/// The parameters of a kernel. The first arguments are a pointer, the first element and the number of elements. The others
/// are in one structure after them, with the scalars.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Number of arguments that are parameters of their own. All, if there is no structure.
    pub plain: usize,
    /// Whether the last argument is a word of the structure that an earlier pointer was left in. No kernel uses it.
    pub has_stale_pointer: bool,
}

/// Bytes of an argument: pointer, first element, number of elements.
const PLAIN: usize = 16;
/// The same in the structure, where a flag of one byte and padding follow.
const PACKED: usize = 24;

impl Layout {
    /// A layout for a kernel. If it has a stale pointer, then the kernel gets one more argument.
    fn new(kernel: &mut Kernel, may_be_stale: bool, random: &mut fastrand::Rng) -> Layout {
        let args = kernel.params.len();
        let plain = if random.bool() { args } else { random.usize(..args) };
        let has_stale_pointer = may_be_stale && plain < args && random.bool();
        if has_stale_pointer {
            let element = kernel.params[0].element;
            kernel.params.push(Param { element, access: Access::Read, role_known: false });
        }
        Layout { plain, has_stale_pointer }
    }

    fn has_structure(&self, kernel: &Kernel) -> bool {
        self.plain < kernel.params.len()
    }

    /// Offset of the pointer of an argument in all parameters.
    pub fn pointer(&self, kernel: &Kernel, arg: usize) -> usize {
        let is_stale = self.has_stale_pointer && arg + 1 == kernel.params.len();
        let packed = arg.saturating_sub(self.plain) * PACKED;
        let scalars = if is_stale { 8 * kernel.scalars } else { 0 };
        PLAIN * arg.min(self.plain) + packed + scalars
    }

    /// Offset of the first scalar.
    fn scalars(&self, kernel: &Kernel) -> usize {
        let args = kernel.params.len() - usize::from(self.has_stale_pointer);
        PLAIN * self.plain + PACKED * (args - self.plain)
    }

    fn bytes(&self, kernel: &Kernel) -> usize {
        let last_word = if self.has_structure(kernel) { 8 } else { 0 };
        self.scalars(kernel) + 8 * kernel.scalars + last_word
    }

    /// Offset and size of each parameter.
    pub fn parameters(&self, kernel: &Kernel) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        for at in (0..self.plain).map(|arg| PLAIN * arg) {
            all.extend([(at, 8), (at + 8, 4), (at + 12, 4)]);
        }
        if self.has_structure(kernel) {
            let start = PLAIN * self.plain;
            all.push((start, self.bytes(kernel) - start));
        } else {
            all.extend((0..kernel.scalars).map(|at| (self.scalars(kernel) + 8 * at, 8)));
        }
        all
    }

    /// The content of all parameters except for the pointers. Padding is garbage.
    pub fn content(
        &self,
        kernel: &Kernel,
        args: &[crate::program::Arg],
        scalars: &[u64],
        garbage: u64,
    ) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes(kernel)];
        fastrand::Rng::with_seed(garbage).fill(&mut bytes);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        for (position, arg) in args.iter().enumerate() {
            if self.has_stale_pointer && position + 1 == args.len() {
                continue;
            }
            let at = self.pointer(kernel, position);
            let number = |number: usize| u32::try_from(number).expect("small").to_le_bytes();
            put(at + 8, &number(arg.used.start));
            put(at + 12, &number(arg.used.len()));
            if position >= self.plain {
                put(at + 16, &[1]);
            }
        }
        for (position, scalar) in scalars.iter().enumerate() {
            put(self.scalars(kernel) + 8 * position, &scalar.to_le_bytes());
        }
        bytes
    }
}

/// Chooses a layout for each kernel, and adds the unused argument to the launches of kernels with a stale pointer. One
/// program in six has such kernels.
pub fn choose(program: &mut Program, random: &mut fastrand::Rng) -> Vec<Layout> {
    let may_be_stale = random.u8(..6) == 0;
    let layouts: Vec<Layout> =
        program.kernels.iter_mut().map(|kernel| Layout::new(kernel, may_be_stale, random)).collect();
    for action in &mut program.actions {
        if let Action::Launch { launch, .. } = action
            && layouts[launch.kernel].has_stale_pointer
        {
            let view = View::dense(0, 0..1);
            launch.args.push(crate::program::Arg { view, used: 0..0, marked: false });
        }
    }
    layouts
}

/// Gives every stale pointer a block that is allocated at its launch.
pub fn set_stale_pointers(program: &mut Program, layouts: &[Layout], random: &mut fastrand::Rng) {
    let mut live = vec![false; program.blocks.len()];
    for action in &mut program.actions {
        match action {
            Action::Alloc { block } => live[*block] = true,
            Action::Free { block } => live[*block] = false,
            Action::Launch { launch, .. } if layouts[launch.kernel].has_stale_pointer => {
                let blocks: Vec<usize> = (0..live.len()).filter(|&block| live[block]).collect();
                let arg = launch.args.last_mut().expect("the stale pointer");
                arg.view = View::dense(*random.choice(blocks.iter()).expect("block 0 is allocated"), 0..1);
            }
            Action::Launch { .. } | Action::Host { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Arg, Element, Form};

    fn kernel(scalars: usize) -> Kernel {
        let param = Param { element: Element::I32, access: Access::Read, role_known: false };
        let (name, params) = ("k".to_owned(), vec![param; 3]);
        Kernel { name, params, scalars, garbage_scalar: false, salt: 0, form: Form::Mix }
    }

    #[test]
    fn a_structure_has_pointers_sizes_scalars_padding_and_a_stale_pointer() {
        let (kernel, layout) = (kernel(1), Layout { plain: 1, has_stale_pointer: true });
        assert_eq!(layout.parameters(&kernel), [(0, 8), (8, 4), (12, 4), (16, 40)]);
        assert_eq!([0, 1, 2].map(|arg| layout.pointer(&kernel, arg)), [0, 16, 48]);
        let arg = |used| Arg { view: View::dense(0, 0..9), used, marked: false };
        let args = [arg(1..3), arg(2..9), arg(0..0)];
        let contents = [1, 2].map(|garbage| layout.content(&kernel, &args, &[77], garbage));
        let differs: Vec<usize> = (0..56).filter(|&at| contents[0][at] != contents[1][at]).collect();
        let is_garbage = |at: usize| at < 8 || (16..24).contains(&at) || (33..40).contains(&at) || at >= 48;
        assert!(differs.iter().all(|&at| is_garbage(at)), "{differs:?}");
        assert!(differs.len() > 20, "{differs:?}");
        assert_eq!(contents[0][8..16], [1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(contents[0][24..33], [2, 0, 0, 0, 7, 0, 0, 0, 1]);
        assert_eq!(contents[0][40..48], 77_u64.to_le_bytes());
    }

    #[test]
    fn without_a_structure_everything_is_a_parameter() {
        let (kernel, layout) = (kernel(2), Layout { plain: 3, has_stale_pointer: false });
        let parameters = layout.parameters(&kernel);
        assert_eq!(parameters.len(), 11);
        assert_eq!(parameters[9..], [(48, 8), (56, 8)]);
    }
}
