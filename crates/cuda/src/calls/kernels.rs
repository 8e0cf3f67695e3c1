//! Kernels that are launched.

use std::sync::{Arc, OnceLock};

use tensortap_record::{KernelId, KernelInfo, RecordError, ThreadRecorder};

use crate::{door::Door, parameters::Place, raw::Call};

/// What is known of a kernel.
#[derive(Debug)]
pub struct KernelFacts {
    name: String,
    /// Its parameters; none where the driver cannot say.
    pub parameters: Option<Vec<Place>>,
    id: OnceLock<KernelId>,
}

impl KernelFacts {
    /// The kernel of a handle, asked for once.
    pub fn of(door: &Door, call: Call<'_>, function: usize) -> Arc<KernelFacts> {
        let known = door.state().kernels.get(&function).map(Arc::clone);
        if let Some(known) = known {
            return known;
        }
        // Code that is loaded when it is first needed is needed now: its image is told of while this is asked.
        door.driver.load(function);
        let parameters = door
            .driver
            .parameters(function)
            .map(|places| places.into_iter().map(|(offset, size)| Place { offset, size }).collect());
        let name = call.symbol().or_else(|| door.driver.name(function));
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown kernel".to_owned());
        let facts = Arc::new(KernelFacts { name, parameters, id: OnceLock::new() });
        door.state().kernels.insert(function, Arc::clone(&facts));
        facts
    }

    /// Its number in the dump.
    pub fn id(&self, door: &Door, recorder: &mut ThreadRecorder) -> Result<KernelId, RecordError> {
        if let Some(&id) = self.id.get() {
            return Ok(id);
        }
        let module = door.state().modules.of(&self.name).unwrap_or_default();
        let id = recorder.define_kernel(&KernelInfo { name: &self.name, module, args: &[] })?;
        Ok(*self.id.get_or_init(|| id))
    }
}
