//! What is known of a command when it is submitted: values it is given, and what of it cannot be read.

use tensortap_record::{
    DType, DumpStage, RecordError, Role, StringId, Task, Tensor, ThreadRecorder, UncapturedReason,
};

/// It. It is recorded once, by whoever comes first: the thread that submits the command, or the one that records what the device finds of it.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Values.
    pub values: Values,
    /// What cannot be read: positions, names and why.
    pub unread: Vec<(u16, StringId, UncapturedReason)>,
}

/// Values by their positions, with their bytes in one piece.
#[derive(Clone, Debug, Default)]
pub struct Values {
    places: Vec<(u16, usize)>,
    bytes: Vec<u8>,
}

impl Values {
    /// With another value.
    pub fn push(&mut self, arg: u16, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.places.push((arg, self.bytes.len()));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Positions and bytes of all.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let begins = std::iter::once(0).chain(self.places.iter().map(|&(_, end)| end));
        begins.zip(&self.places).map(|(begin, &(arg, end))| (arg, &self.bytes[begin..end]))
    }
}

impl Known {
    /// Records it.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder`].
    pub fn record(&self, recorder: &mut ThreadRecorder, task: &mut Task) -> Result<(), RecordError> {
        if self.values.places.is_empty() && self.unread.is_empty() {
            return Ok(());
        }
        recorder.together(task, |recorder, task| {
            for (arg, bytes) in self.values.iter() {
                record_value(recorder, task, arg, bytes)?;
            }
            for &(arg, name, reason) in &self.unread {
                recorder.not_captured(task, DumpStage::BeforeDispatch, (arg, Role::InOut, name), reason)?;
            }
            Ok(())
        })
    }
}

/// A value of a size that numbers have is one; others are bytes.
fn record_value(
    recorder: &mut ThreadRecorder,
    task: &mut Task,
    arg: u16,
    bytes: &[u8],
) -> Result<(), RecordError> {
    let dtype = match bytes.len() {
        1 => DType::UInt8,
        2 => DType::UInt16,
        4 => DType::UInt32,
        8 => DType::UInt64,
        _ => {
            let tensor = Tensor::of(bytes, DType::UInt8)?.arg(arg).role(Role::Input);
            recorder.tensor(task, DumpStage::BeforeDispatch, &tensor.guessed(true, false, false))?;
            return Ok(());
        }
    };
    let mut bits = [0; 8];
    bits[..bytes.len()].copy_from_slice(bytes);
    recorder.scalar(task, arg, dtype, u64::from_le_bytes(bits), StringId::NONE)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_bytes_also_where_they_have_none() {
        let mut values = Values::default();
        values.push(3, &[1, 2]);
        values.push(0, &[]);
        values.push(9, &[3]);
        assert_eq!(values.iter().collect::<Vec<_>>(), [(3, &[1, 2][..]), (0, &[]), (9, &[3])]);
        assert_eq!(values.len(), 3);
    }
}
