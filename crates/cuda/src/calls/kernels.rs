//! Kernels that are launched.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tensortap_record::{KernelId, KernelInfo, RecordError, StringId, ThreadRecorder};

use super::modules::{self, Code};
use crate::{door::Door, parameters::Place, raw::Call};

/// What is known of a kernel.
#[derive(Debug)]
pub struct KernelFacts {
    name: String,
    /// Its parameters; none where the driver cannot say.
    pub parameters: Option<Vec<Place>>,
    /// What it is of.
    pub code: Code,
    id: OnceLock<KernelId>,
    /// What words inside of its parameters are called, by parameter and place in it.
    inside: Mutex<Vec<(PlaceInside, StringId)>>,
}

/// A word inside of a parameter: the parameter, and bytes before the word.
type PlaceInside = (u16, usize);

/// Names of words inside of parameters. Launches of a kernel have the same ones, in the same order.
pub struct NamesInside<'k> {
    known: MutexGuard<'k, Vec<(PlaceInside, StringId)>>,
    /// Where the next one stands, if it is that of the launch before.
    next: usize,
}

impl NamesInside<'_> {
    /// What a word is called.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder::string`].
    pub fn name(
        &mut self,
        recorder: &mut ThreadRecorder,
        place: PlaceInside,
    ) -> Result<StringId, RecordError> {
        let is_it = |&at: &usize| self.known.get(at).is_some_and(|(known, _)| *known == place);
        let found = Some(self.next).filter(is_it).or_else(|| (0..self.known.len()).find(is_it));
        let at = match found {
            Some(at) => at,
            None => {
                let (of, bytes) = place;
                let name = recorder.string(&format!("{of}+{bytes}"))?;
                self.known.push((place, name));
                self.known.len() - 1
            }
        };
        self.next = at + 1;
        Ok(self.known[at].1)
    }
}

impl KernelFacts {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel of a handle, asked for once.
    pub fn of(door: &Door, call: Option<Call<'_>>, function: usize) -> Arc<KernelFacts> {
        let known = door.state().kernels.get(&function).map(Arc::clone);
        if let Some(known) = known {
            return known;
        }
        // Code that is loaded when it is first needed is needed now: its image is told of while this is asked.
        let (name, code) = modules::code(door, function, || {
            let name = call.and_then(Call::symbol).or_else(|| door.driver.name(function));
            name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown kernel".to_owned())
        });
        let parameters = door
            .driver
            .parameters(function)
            .map(|places| places.into_iter().map(|(offset, size)| Place { offset, size }).collect());
        let facts =
            Arc::new(KernelFacts { name, parameters, code, id: OnceLock::new(), inside: Mutex::default() });
        door.state().kernels.insert(function, Arc::clone(&facts));
        facts
    }

    /// The number of a task that launches it, if a filter may let that pass.
    pub fn claim(&self, door: &Door) -> Option<u64> {
        // Each parameter is a record at least.
        let records = self.parameters.as_ref().map_or(1, Vec::len);
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        let claimed = door.record(|recorder| {
            let kernel = self.id(recorder)?;
            recorder.claim(kernel, records)
        });
        claimed.flatten()
    }

    /// What words inside of its parameters are called.
    pub fn names_inside(&self) -> NamesInside<'_> {
        NamesInside { known: self.inside.lock().unwrap_or_else(PoisonError::into_inner), next: 0 }
    }

    /// Its number in the dump.
    pub fn id(&self, recorder: &mut ThreadRecorder) -> Result<KernelId, RecordError> {
        if let Some(&id) = self.id.get() {
            return Ok(id);
        }
        let module = self.code.module.unwrap_or_default();
        let id = recorder.define_kernel(&KernelInfo { name: &self.name, module, args: &[] })?;
        Ok(*self.id.get_or_init(|| id))
    }
}
