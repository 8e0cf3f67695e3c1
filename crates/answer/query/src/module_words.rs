//! Texts for modules: the programs that contain the kernels of a dump.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tensortap::format::{Dump, Module, Task};

use crate::number::bytes;
use crate::words::printable;

/// The number of the module with a task's code; 0 if unknown.
#[must_use]
pub fn module_id(task: Task<'_>) -> u32 {
    let of_kernel = || task.kernels().map(|kernel| kernel.module).find(|&module| module != 0);
    if task.module != 0 { task.module } else { of_kernel().unwrap_or(0) }
}

/// The module with a task's code, if the dump has it.
#[must_use]
pub fn module_of(dump: &Dump, task: Task<'_>) -> Option<Module> {
    let id = module_id(task);
    if id == 0 {
        return None;
    }
    dump.modules().into_iter().find(|module| module.id == id)
}

/// `program 1, opencl_c, 412 B, built with -DWRONG=1, for pthread, modules/….cl`.
#[must_use]
pub fn module_words(module: &Module) -> String {
    let Module { id, name, kind, options, device, bytes: size, .. } = module;
    let said = |what: &str, text: &str| (!text.is_empty()).then(|| format!("{what}{}", printable(text)));
    let parts = [
        Some(format!("program {id}")),
        // Capture backends name nameless programs by their number.
        said("", name).filter(|name| *name != format!("program {id}")),
        Some(kind.name().to_owned()),
        (*size > 0).then(|| bytes(*size)),
        Some(said("built with ", options).unwrap_or_else(|| "built without options".into()))
            .filter(|_| kind.is_opencl()),
        said("for ", device),
        Some(module.file().map_or("image not stored".into(), |file| file.display().to_string())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A module and the number of tasks that use it.
#[derive(Clone, Debug)]
pub struct ModuleUse {
    /// The module.
    pub module: Module,
    /// Number of tasks that run its code.
    pub tasks: u64,
}

/// The modules of a dump, most used first.
#[must_use]
pub fn module_uses<'t>(dump: &Dump, tasks: impl Iterator<Item = Task<'t>>) -> Vec<ModuleUse> {
    let modules = dump.modules();
    if modules.is_empty() {
        return Vec::new();
    }
    let mut counts: HashMap<u32, u64> = HashMap::new();
    // Cache by kernel: many tasks share one, and the lookup is a linear search.
    let mut known = HashMap::new();
    for task in tasks {
        let module = *known.entry((task.module, task.func_id)).or_insert_with(|| module_id(task));
        *counts.entry(module).or_default() += 1;
    }
    let of = |module: Module| ModuleUse { tasks: counts.get(&module.id).copied().unwrap_or(0), module };
    let mut uses: Vec<ModuleUse> = modules.into_iter().map(of).collect();
    uses.sort_by_key(|one| (std::cmp::Reverse(one.tasks), one.module.id));
    uses
}

/// Kernels that were built from different code than in the golden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherProgram {
    /// Names of the kernels.
    pub kernels: Vec<String>,
    /// `built with -DWRONG=1, in the golden with -DWRONG=0`.
    pub words: String,
}

/// Kernels of both dumps that were built from different code or with different options.
#[must_use]
pub fn other_programs(dump: &Dump, golden: &Dump) -> Vec<OtherProgram> {
    let (here, there) = (programs_of(dump), programs_of(golden));
    let mut by_words: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (kernel, ours) in &here {
        let Some(theirs) = there.get(kernel).filter(|theirs| *theirs != ours) else { continue };
        let only = |one: &BTreeSet<Code>, other: &BTreeSet<Code>| one.difference(other).next().cloned();
        let words = match (only(ours, theirs), only(theirs, ours)) {
            (Some(ours), Some(theirs)) => {
                let line = first_line((dump, &ours), (golden, &theirs)).unwrap_or_default();
                format!("{}{line}", ours.differs_from(&theirs))
            }
            (Some(ours), None) => format!("also {}, but not in the golden", ours.words()),
            (None, Some(theirs)) => format!("in the golden also {}", theirs.words()),
            (None, None) => continue,
        };
        by_words.entry(words).or_default().push(kernel.clone());
    }
    by_words.into_iter().map(|(words, kernels)| OtherProgram { kernels, words }).collect()
}

/// Identity of a kernel's code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Code {
    options: String,
    /// Hash of the image; 0 if unknown.
    hash: u128,
    kind: &'static str,
    is_source: bool,
    bytes: u64,
}

impl Code {
    fn words(&self) -> String {
        let options = match self.options.as_str() {
            "" => "without options".into(),
            options => format!("with {}", printable(options)),
        };
        format!("built {options} from {} of {}", self.kind, bytes(self.bytes))
    }

    fn differs_from(&self, golden: &Code) -> String {
        let options = |code: &Code| match code.options.as_str() {
            "" => "without options".to_owned(),
            options => format!("with {}", printable(options)),
        };
        let built = (self.options != golden.options)
            .then(|| format!("built {}, in the golden {}", options(self), options(golden)));
        let what = if self.is_source { "different source" } else { "different image" };
        let code = (self.hash != golden.hash || self.kind != golden.kind).then(|| {
            let of = |code: &Code| format!("{} of {}", code.kind, bytes(code.bytes));
            format!("{what} ({}, in the golden {})", of(self), of(golden))
        });
        [built, code].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Characters shown of a line, and how many of them precede the first difference.
const LINE_CHARS: usize = 60;
const BEFORE_CHARS: usize = 20;

/// The first differing line of two sources: `, first at line 7: ..., in the golden ...`. `None` if they are
/// equal or not both available.
fn first_line((dump, ours): (&Dump, &Code), (golden, theirs): (&Dump, &Code)) -> Option<String> {
    let text = |dump: &Dump, code: &Code| {
        let is_it = |module: &Module| module.hash == code.hash && module.kind.name() == code.kind;
        let image = dump.modules().into_iter().find(is_it)?.image(dump.dir()).ok()?;
        String::from_utf8(image).ok().filter(|_| code.is_source)
    };
    let (ours, theirs) = (text(dump, ours)?, text(golden, theirs)?);
    let (mut ours, mut theirs, mut number) = (ours.lines(), theirs.lines(), 1);
    let (here, there) = loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return None,
            (here, there) if here != there => break (here, there),
            _ => number += 1,
        }
    };
    let same = here.unwrap_or_default().chars().zip(there.unwrap_or_default().chars());
    let skipped = same.take_while(|(ours, theirs)| ours == theirs).count().saturating_sub(BEFORE_CHARS);
    let shown = |line: Option<&str>| match line {
        None => "nothing".to_owned(),
        Some(line) => {
            let cut = if skipped > 0 { "…" } else { "" };
            let part: String = line.chars().skip(skipped).take(LINE_CHARS).collect();
            format!("`{cut}{}`", printable(&part))
        }
    };
    Some(format!(", first at line {number}: {}, in the golden {}", shown(here), shown(there)))
}

/// The code of each kernel by name. A program may build a kernel more than once.
fn programs_of(dump: &Dump) -> BTreeMap<String, BTreeSet<Code>> {
    let modules: HashMap<u32, Module> =
        dump.modules().into_iter().map(|module| (module.id, module)).collect();
    let mut programs: BTreeMap<String, BTreeSet<Code>> = BTreeMap::new();
    for kernel in &dump.info().kernels {
        let Some(Module { options, hash, kind, bytes, .. }) = modules.get(&kernel.module) else { continue };
        let code = Code {
            options: options.clone(),
            hash: *hash,
            kind: kind.name(),
            is_source: *kind == tensortap::abi::ModuleKind::OpenClC,
            bytes: *bytes,
        };
        programs.entry(kernel.name.clone()).or_default().insert(code);
    }
    programs
}
