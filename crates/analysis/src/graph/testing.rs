//! Graphs for tests, written down in a few words.

use tensortap_abi::{DType, Role};
use tensortap_geometry::Layout;

use super::{Argument, Captured, GraphTask, KernelName, Origin, Place};

/// A hash that stands for a content with a name.
pub(crate) fn hash_of(content: &str) -> u128 {
    content.bytes().fold(0x9e37_79b9_7f4a_7c15, |hash: u128, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

/// A task, argument after argument. Tensors are 16 floats; address 0 stands for none.
pub(crate) struct TaskMaker(GraphTask);

impl TaskMaker {
    pub fn new(task_id: u64, kernel: &str) -> TaskMaker {
        let kernels = vec![KernelName { func_id: None, name: Some(kernel.into()) }];
        TaskMaker(GraphTask { task_id, kernels, block_num: Some(1), ..GraphTask::default() })
    }

    pub fn input(self, address: u64, content: &str) -> TaskMaker {
        self.tensor(address, Role::Input, Some(content), None)
    }

    pub fn output(self, address: u64, content: &str) -> TaskMaker {
        self.tensor(address, Role::Output, None, Some(content))
    }

    pub fn inout(self, address: u64, before: &str, after: &str) -> TaskMaker {
        self.tensor(address, Role::InOut, Some(before), Some(after))
    }

    pub fn scalar(mut self, bits: u64) -> TaskMaker {
        let arg =
            Argument { scalar_bits: Some(bits), shape: Vec::new(), place: None, ..self.blank(Role::Input) };
        self.0.args.push(arg);
        self
    }

    /// Makes the argument added last a row of 4-bit elements, counted from an address.
    pub fn half_bytes(mut self, address: u64, elements: std::ops::Range<u64>) -> TaskMaker {
        let row = Layout::new(&[elements.end - elements.start], &[1], elements.start, 4).unwrap();
        let arg = self.0.args.last_mut().unwrap();
        (arg.dtype, arg.shape) = (DType::Int4, row.shape().to_vec());
        arg.place = Some(Place::new(row, address));
        self
    }

    pub fn at(mut self, start: u64) -> TaskMaker {
        self.0.dispatched_ns = Some(start);
        self.0.completed_ns = Some(start + 1);
        self
    }

    pub fn until(mut self, end: u64) -> TaskMaker {
        self.0.completed_ns = Some(end);
        self
    }

    pub fn done(self) -> GraphTask {
        self.0
    }

    fn blank(&self, role: Role) -> Argument {
        Argument {
            arg_index: u16::try_from(self.0.args.len()).unwrap(),
            role,
            dtype: DType::Float32,
            shape: vec![16],
            scalar_bits: None,
            place: None,
            before: None,
            after: None,
            origin: Origin::default(),
        }
    }

    fn tensor(mut self, address: u64, role: Role, before: Option<&str>, after: Option<&str>) -> TaskMaker {
        let record = self.0.task_id * 100 + self.0.args.len() as u64 * 2;
        let captured = |content: Option<&str>, record| {
            content.map(|c| Captured { record, hash: Some(hash_of(c)), stored: true })
        };
        let place = || Place::new(Layout::contiguous(&[16], 32).unwrap(), address);
        let arg = Argument {
            place: (address != 0).then(place),
            before: captured(before, record),
            after: captured(after, record + 1),
            ..self.blank(role)
        };
        self.0.args.push(arg);
        self
    }
}
