//! The programs that kernels of a dump come from, in words.

use std::collections::HashMap;

use tensortap::format::{Dump, Module, Task};

use crate::number::bytes;
use crate::words::printable;

/// The number of the module that the code of a task comes from; 0 when not known.
#[must_use]
pub fn module_id(task: Task<'_>) -> u32 {
    let of_kernel = || task.kernels().map(|kernel| kernel.module).find(|&module| module != 0);
    if task.module != 0 { task.module } else { of_kernel().unwrap_or(0) }
}

/// The module that the code of a task comes from, where the dump knows it.
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
        // Doors call programs without a name by their number.
        said("", name).filter(|name| *name != format!("program {id}")),
        Some(kind.name().to_owned()),
        (*size > 0).then(|| bytes(*size)),
        Some(said("built with ", options).unwrap_or_else(|| "built without options".into()))
            .filter(|_| kind.is_opencl()),
        said("for ", device),
        Some(module.file().map_or("its image was not stored".into(), |file| file.display().to_string())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A program and the launches that run its kernels.
#[derive(Clone, Debug)]
pub struct ModuleUse {
    /// The program.
    pub module: Module,
    /// Tasks that run code of it.
    pub tasks: u64,
}

/// The programs of a dump, those first that most tasks run; how many tasks run each.
#[must_use]
pub fn module_uses<'t>(dump: &Dump, tasks: impl Iterator<Item = Task<'t>>) -> Vec<ModuleUse> {
    let modules = dump.modules();
    if modules.is_empty() {
        return Vec::new();
    }
    let mut counts: HashMap<u32, u64> = HashMap::new();
    // Tasks of one kernel are many, and looking for it takes a walk.
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
