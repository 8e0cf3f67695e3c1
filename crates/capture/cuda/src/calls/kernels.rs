//! Kernels that are launched.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tensortap_record::{KernelId, KernelInfo, RecordError, StringId, ThreadRecorder};

use super::modules::{self, Code};
use crate::{backend::CudaBackend, parameters::ParameterLayout, raw::Call};

/// What is known of a kernel.
#[derive(Debug)]
pub struct KernelFacts {
    name: String,
    /// Its parameters. None if the driver does not report them.
    pub parameters: Option<Vec<ParameterLayout>>,
    /// Its module and its variables.
    pub code: Code,
    id: OnceLock<KernelId>,
    /// Names of words inside of its parameters.
    inside: Mutex<Vec<(InnerWord, StringId)>>,
}

/// A word inside of a parameter: the parameter, and the offset of the word.
type InnerWord = (u16, usize);

/// Names of words inside of parameters. All launches of a kernel have the same words in the same order.
pub struct InnerNames<'k> {
    known: MutexGuard<'k, Vec<(InnerWord, StringId)>>,
    /// Position of the next name, if the words are those of the previous launch.
    next: usize,
}

impl InnerNames<'_> {
    /// The name of a word.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder::string`].
    pub fn name(&mut self, recorder: &mut ThreadRecorder, place: InnerWord) -> Result<StringId, RecordError> {
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
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel of a handle. The driver is asked once.
    pub fn of(backend: &CudaBackend, call: Option<Call<'_>>, function: usize) -> Arc<KernelFacts> {
        let known = backend.state().kernels.get(&function).map(Arc::clone);
        if let Some(known) = known {
            return known;
        }
        // Code with lazy loading is loaded now, and CUPTI reports its image during this call.
        let (name, code) = modules::code(backend, function, || {
            let name = call.and_then(Call::symbol).or_else(|| backend.driver.name(function));
            name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown kernel".to_owned())
        });
        let parameters = backend.driver.parameters(function).map(|places| {
            places.into_iter().map(|(offset, size)| ParameterLayout { offset, size }).collect()
        });
        let facts =
            Arc::new(KernelFacts { name, parameters, code, id: OnceLock::new(), inside: Mutex::default() });
        backend.state().kernels.insert(function, Arc::clone(&facts));
        facts
    }

    /// A task number for a launch of this kernel, if the filters may let it pass.
    pub fn claim(&self, backend: &CudaBackend) -> Option<u64> {
        // Each parameter makes at least one record.
        let records = self.parameters.as_ref().map_or(1, Vec::len);
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        let claimed = backend.record(|recorder| {
            let kernel = self.id(recorder)?;
            recorder.claim(kernel, records)
        });
        claimed.flatten()
    }

    /// The names of words inside of its parameters.
    pub fn inner_names(&self) -> InnerNames<'_> {
        InnerNames { known: self.inside.lock().unwrap_or_else(PoisonError::into_inner), next: 0 }
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
