//! Tests attributes.

use tensortap_format::{Attribute, AttributeValue as Read, Details, Dump, TaskKey};
use tensortap_record::*;

use crate::host::{Host, Kind, PLAIN};

fn key(task_id: u64) -> TaskKey {
    TaskKey { step: 0, task_id }
}

/// The only attribute with this name.
fn find<'d>(details: &'d Details, task: u64, name: &str) -> Attribute<'d> {
    let mut found = details.attributes(key(task)).filter(|attribute| attribute.name == name);
    let attribute = found.next().unwrap_or_else(|| panic!("{name} of {task}"));
    assert!(found.next().is_none(), "{name} is there once");
    attribute
}

fn graph_of(dump: &Dump) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(dump.dir().join("graph.json")).unwrap()).unwrap()
}

#[test]
fn attributes_of_every_type_come_back_as_they_were() {
    let host = Host::new(PLAIN);
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let long = "x".repeat(300);
    let values = [
        ("none", AttributeValue::None, Read::None),
        ("yes", AttributeValue::Bool(true), Read::Bool(true)),
        ("least", AttributeValue::Integer(i64::MIN), Read::Integer(i64::MIN)),
        ("half", AttributeValue::Float(0.5), Read::Float(0.5)),
        ("text", AttributeValue::Text(&long), Read::Text(&long)),
        ("empty", AttributeValue::Text(""), Read::Text("")),
        ("dtype", AttributeValue::DType(DType::BFloat16), Read::DType(DType::BFloat16)),
        ("other", AttributeValue::Uncaptured("torch.Generator"), Read::Uncaptured("torch.Generator")),
    ];
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    let mut bare = recorder.begin(&TaskInfo::default()).unwrap();
    for (name, value, _) in &values {
        let name = recorder.string(name).unwrap();
        assert_eq!(recorder.attribute(&task, name, *value).unwrap(), Outcome::Recorded);
    }
    let list: Vec<AttributeValue<'_>> = values.iter().map(|(_, value, _)| *value).collect();
    let name = recorder.string("list").unwrap();
    recorder.attribute_list(&task, name, &list).unwrap();
    for (name, count) in [("few", 0_u32), ("16", 16), ("17", 17), ("most", 1024), ("many", 5000)] {
        let integers: Vec<_> = (0..i64::from(count)).map(AttributeValue::Integer).collect();
        let name = recorder.string(name).unwrap();
        recorder.attribute_list(&task, name, &integers).unwrap();
    }
    recorder.end(&mut task).unwrap();
    assert!(matches!(
        recorder.attribute(&bare, StringId::NONE, list[0]),
        Err(RecordError::BadArgument { .. })
    ));
    recorder.end(&mut bare).unwrap();
    assert!(recorder.attribute(&task, name, list[0]).is_err(), "the task has ended");
    drop(recorder);
    session.close().unwrap();

    let (_dir, dump, summary) = host.dump();
    assert_eq!((summary.counters.corrupt_records, summary.counters.dropped_records), (0, 0));
    let details = dump.details().unwrap();
    for (name, _, expected) in &values {
        let found = find(&details, 1, name);
        assert_eq!((&found.values[..], found.total, found.is_list), (&[*expected][..], 1, false), "{name}");
    }
    let expected: Vec<Read<'_>> = values.iter().map(|(.., expected)| *expected).collect();
    let found = find(&details, 1, "list");
    assert_eq!((found.values, found.total, found.is_list), (expected, 8, true));
    for (name, count) in [("few", 0), ("16", 16), ("17", 17), ("most", 1024), ("many", 5000)] {
        let found = find(&details, 1, name);
        let recorded: Vec<Read<'_>> = (0..i64::from(count).min(1024)).map(Read::Integer).collect();
        assert_eq!((found.values, found.total, found.is_list), (recorded, count, true), "{name}");
    }
    assert_eq!((details.attributes(key(1)).count(), details.attributes(key(2)).count()), (14, 0));

    let graph = graph_of(&dump);
    let listed = graph["attributes"].as_array().unwrap();
    assert_eq!((listed.len(), &graph["schema_version"]), (14, &2.into()));
    assert_eq!(listed[2]["value"], "-9223372036854775808");
    assert_eq!(
        (&listed[7]["type"], &listed[7]["task_id"]),
        (&"uncaptured".into(), &"0x0000000000000001".into())
    );
}

#[test]
fn attributes_of_refused_tasks_are_not_recorded() {
    let filter = DumpFilter { first_tasks: 1, ..DumpFilter::ALL };
    let host = Host::new(Kind { filter, ..PLAIN });
    let session = host.session();
    let mut recorder = session.thread().unwrap();
    let name = recorder.string("n").unwrap();
    for expected in [Outcome::Recorded, Outcome::Filtered] {
        let mut task = recorder.begin(&TaskInfo::default()).unwrap();
        assert_eq!(recorder.attribute(&task, name, AttributeValue::Integer(1)).unwrap(), expected);
        recorder.end(&mut task).unwrap();
    }
    drop(recorder);
    session.close().unwrap();
    let (_dir, dump, _) = host.dump();
    let details = dump.details().unwrap();
    assert_eq!([1, 2].map(|task| details.attributes(key(task)).count()), [1, 0]);
}
