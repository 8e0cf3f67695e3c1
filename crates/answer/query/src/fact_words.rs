//! Texts for attributes, regions and collectives of tasks.

use tensortap::format::{Attribute, AttributeValue, TaskCollective};

use crate::number::grouped;
use crate::wrap::shorten;

/// Values of a list that a text shows.
const SHOWN: usize = 16;
/// Characters of a text value that are shown.
const TEXT: usize = 80;

/// The value of an attribute: `0.5`, `"relu"`, `dtype float16`, `[1, 2, 3]`. Control characters stay; see
/// [`crate::words::printable`].
#[must_use]
pub fn attribute_text(attribute: &Attribute<'_>) -> String {
    if let ([value], false) = (&attribute.values[..], attribute.is_list) {
        return value_text(value);
    }
    let mut shown: Vec<String> = attribute.values.iter().take(SHOWN).map(value_text).collect();
    let (total, count) = (u64::from(attribute.total), attribute.values.len());
    if count > SHOWN {
        shown.push("…".into());
    }
    let list = format!("[{}]", shown.join(", "));
    match (count > SHOWN, count as u64 == total) {
        (_, false) => format!("{list} ({} of {} values recorded)", grouped(count as u64), grouped(total)),
        (true, true) => format!("{list} ({} values)", grouped(total)),
        (false, true) => list,
    }
}

/// What a task is in a collective: `all_reduce, number 3 of group dp`.
#[must_use]
pub fn collective_text(collective: &TaskCollective<'_>) -> String {
    let TaskCollective { group, sequence, kind } = collective;
    format!("{}, number {} of group {}", kind.name(), grouped(*sequence), shorten(group, TEXT))
}

fn value_text(value: &AttributeValue<'_>) -> String {
    match value {
        AttributeValue::None => "none".into(),
        AttributeValue::Bool(value) => value.to_string(),
        AttributeValue::Integer(value) => value.to_string(),
        AttributeValue::Float(value) => format!("{value:?}"),
        AttributeValue::Text(text) => format!("\"{}\"", shorten(text, TEXT)),
        AttributeValue::DType(dtype) => format!("dtype {dtype}"),
        AttributeValue::Uncaptured(name) => format!("not captured: {}", shorten(name, TEXT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap::DType;

    #[test]
    fn values_of_each_type_read_differently() {
        let one =
            |value| attribute_text(&Attribute { name: "a", is_list: false, total: 1, values: vec![value] });
        assert_eq!(one(AttributeValue::None), "none");
        assert_eq!(one(AttributeValue::Bool(true)), "true");
        assert_eq!(one(AttributeValue::Integer(-3)), "-3");
        assert_eq!(one(AttributeValue::Float(0.5)), "0.5");
        assert_eq!(one(AttributeValue::Float(1.0)), "1.0", "no integer");
        assert_eq!(one(AttributeValue::Float(1e-300)), "1e-300");
        assert_eq!(one(AttributeValue::Text("float32")), "\"float32\"");
        assert_eq!(one(AttributeValue::DType(DType::Float32)), "dtype float32");
        assert_eq!(one(AttributeValue::Uncaptured("torch.Generator")), "not captured: torch.Generator");
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let list = |count: i64, total| {
            let values = (0..count).map(AttributeValue::Integer).collect();
            attribute_text(&Attribute { name: "a", is_list: true, total, values })
        };
        assert_eq!(list(3, 3), "[0, 1, 2]");
        assert_eq!(list(0, 0), "[]");
        let sixteen: Vec<String> = (0..16).map(|n| n.to_string()).collect();
        assert_eq!(list(17, 17), format!("[{}, …] (17 values)", sixteen.join(", ")));
        assert_eq!(list(2, 5000), "[0, 1] (2 of 5,000 values recorded)");
    }
}
