//! What is known of a command when it is submitted: its arguments by value, and arguments that cannot be
//! read.

use tensortap_queue::Value;
use tensortap_record::{DumpStage, RecordError, Role, StringId, Task, ThreadRecorder, UncapturedReason};

/// Arguments by value, and arguments that cannot be read. They are recorded once: by the thread that submits
/// the command, or by the harvest thread.
#[derive(Clone, Debug, Default)]
pub struct SubmittedValues {
    /// Arguments by value.
    pub values: Values,
    /// Arguments that cannot be read: position, name and reason.
    pub unread: Vec<(u16, StringId, UncapturedReason)>,
}

/// Values by position. Their content is in one vector.
#[derive(Clone, Debug, Default)]
pub struct Values {
    places: Vec<(u16, usize)>,
    bytes: Vec<u8>,
}

impl Values {
    /// Adds a value.
    pub fn push(&mut self, arg: u16, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.places.push((arg, self.bytes.len()));
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Position and content of each value.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let begins = std::iter::once(0).chain(self.places.iter().map(|&(_, end)| end));
        begins.zip(&self.places).map(|(begin, &(arg, end))| (arg, &self.bytes[begin..end]))
    }
}

impl SubmittedValues {
    /// Records all of them.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder`].
    pub fn record(&self, recorder: &mut ThreadRecorder, task: &mut Task) -> Result<(), RecordError> {
        if self.values.places.is_empty() && self.unread.is_empty() {
            return Ok(());
        }
        recorder.together(task, |recorder, task| {
            for (arg, bytes) in self.values.iter() {
                Value::untyped(arg, bytes).record(recorder, task)?;
            }
            for &(arg, name, reason) in &self.unread {
                recorder.not_captured(task, DumpStage::BeforeDispatch, (arg, Role::InOut, name), reason)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_values_keep_their_position() {
        let mut values = Values::default();
        values.push(3, &[1, 2]);
        values.push(0, &[]);
        values.push(9, &[3]);
        assert_eq!(values.iter().collect::<Vec<_>>(), [(3, &[1, 2][..]), (0, &[]), (9, &[3])]);
        assert_eq!(values.len(), 3);
    }
}
