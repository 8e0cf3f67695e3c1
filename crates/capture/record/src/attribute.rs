//! Attributes of tasks.

use tensortap_abi::{AttributeRecord, AttributeType, DType, MAX_ATTRIBUTE_VALUES, VALUES_PER_ATTRIBUTE};
use tensortap_recorder::Outcome;

use crate::{RecordError, StringId, Task, ThreadRecorder, thread::worse};

/// A value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttributeValue<'a> {
    /// No value.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A text. Each distinct text is stored once.
    Text(&'a str),
    /// An element type.
    DType(DType),
    /// A value of another type, with the name of the type.
    Uncaptured(&'a str),
}

impl ThreadRecorder {
    /// Records an attribute of a task that has not ended, at every dump level.
    ///
    /// # Errors
    /// If the name is [`StringId::NONE`], or the task has ended. See also [`ThreadRecorder`].
    pub fn attribute(
        &mut self,
        task: &Task,
        name: StringId,
        value: AttributeValue<'_>,
    ) -> Result<Outcome, RecordError> {
        self.attribute_values(task, name, &[value], false)
    }

    /// Records an attribute that is a list. The first [`MAX_ATTRIBUTE_VALUES`] values are recorded; further
    /// values are only counted.
    ///
    /// # Errors
    /// As [`ThreadRecorder::attribute`].
    pub fn attribute_list(
        &mut self,
        task: &Task,
        name: StringId,
        values: &[AttributeValue<'_>],
    ) -> Result<Outcome, RecordError> {
        self.attribute_values(task, name, values, true)
    }

    fn attribute_values(
        &mut self,
        task: &Task,
        name: StringId,
        values: &[AttributeValue<'_>],
        is_list: bool,
    ) -> Result<Outcome, RecordError> {
        self.core.check()?;
        if !task.check()? {
            return Ok(Outcome::Filtered);
        }
        if name == StringId::NONE {
            let remedy = "name it with a string id";
            return Err(RecordError::BadArgument { what: "name of an attribute", value: 0, remedy });
        }
        let head = AttributeRecord {
            task_id: task.id(),
            name: name.0,
            total: u32::try_from(values.len()).unwrap_or(u32::MAX),
            is_list: is_list.into(),
            ..AttributeRecord::default()
        };
        let kept = &values[..values.len().min(MAX_ATTRIBUTE_VALUES as usize)];
        if kept.is_empty() {
            return Ok(self.lane.attribute(&head));
        }
        let mut outcome = Outcome::Recorded;
        for (first, part) in (0_u32..).step_by(VALUES_PER_ATTRIBUTE).zip(kept.chunks(VALUES_PER_ATTRIBUTE)) {
            let record = self.filled(AttributeRecord { first, ..head }, part)?;
            outcome = worse(outcome, self.lane.attribute(&record));
        }
        Ok(outcome)
    }

    /// The record with these values.
    fn filled(
        &mut self,
        mut record: AttributeRecord,
        values: &[AttributeValue<'_>],
    ) -> Result<AttributeRecord, RecordError> {
        record.count = u8::try_from(values.len()).unwrap_or(u8::MAX);
        for ((ty, bits), value) in record.types.iter_mut().zip(&mut record.values).zip(values) {
            let (tag, value) = match *value {
                AttributeValue::None => (AttributeType::None, 0),
                AttributeValue::Bool(value) => (AttributeType::Bool, value.into()),
                AttributeValue::Integer(value) => (AttributeType::Integer, value.cast_unsigned()),
                AttributeValue::Float(value) => (AttributeType::Float, value.to_bits()),
                AttributeValue::Text(text) => (AttributeType::Text, self.string(text)?.0.into()),
                AttributeValue::DType(dtype) => (AttributeType::DType, dtype.tag().into()),
                AttributeValue::Uncaptured(name) => (AttributeType::Uncaptured, self.string(name)?.0.into()),
            };
            (*ty, *bits) = (tag as u8, value);
        }
        Ok(record)
    }
}
