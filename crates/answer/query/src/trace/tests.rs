//! Both formats contain the same events, also for damaged dumps.

use prost::Message;
use serde_json::{Value, json};
use tensortap::analysis::graph::load;
use tensortap::format::{Dump, IndexRecord};

use super::perfetto::{
    COUNTER, DebugAnnotation, InternedName, NEEDS_STATE, SLICE_BEGIN, SLICE_END, STATE_CLEARED, TracePacket,
};
use super::*;
use crate::timeline::tests::{dispatch, made, ran, task};

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

fn written(format: TraceFormat, dump: &Dump) -> (Vec<u8>, TraceCounts) {
    let mut out = Vec::new();
    let graph = load(dump, &[]).expect("a graph");
    let timeline = Timeline::of(dump, &graph, |_| true);
    let process = TraceProcess { name: "a\u{1b}b", pid: 7, graph: &graph, timeline: &timeline };
    let mut writer = TraceWriter::new(format, &mut out).expect("begun");
    let mut slices = 0;
    writer.add(&process, |count| slices += count).expect("added");
    let counts = writer.finish().expect("ended");
    assert_eq!(slices, counts.tasks + counts.dispatches);
    (out, counts)
}

/// Events of the protobuf in the form of the JSON: a slice with its end, then its flows, then samples.
fn of_perfetto(bytes: &[u8]) -> Vec<Value> {
    let trace = Trace::decode(bytes).expect("a trace");
    let mut names: [std::collections::HashMap<u64, String>; 3] = Default::default();
    let (mut lines, mut events, mut open) = (std::collections::HashMap::new(), Vec::new(), Vec::new());
    for (place, packet) in trace.packet.iter().enumerate() {
        let cleared = if place == 0 { STATE_CLEARED } else { 0 };
        assert_eq!(packet.sequence_flags, Some(NEEDS_STATE | cleared));
        assert_eq!(packet.trusted_packet_sequence_id, 1);
        if let Some(new) = &packet.interned_data {
            let lists = [&new.event_categories, &new.event_names, &new.debug_annotation_names];
            for (names, list) in names.iter_mut().zip(lists) {
                names.extend(
                    list.iter().map(|InternedName { iid, name }| (iid.unwrap(), name.clone().unwrap())),
                );
            }
        }
        if let Some(track) = &packet.track_descriptor {
            lines.insert(track.uuid.unwrap(), track.name.clone().unwrap());
        }
        let Some(event) = &packet.track_event else { continue };
        let (at, line) = (packet.timestamp.unwrap(), lines[&event.track_uuid.unwrap()].clone());
        match event.r#type {
            Some(SLICE_BEGIN) => {
                let fact = |fact: &DebugAnnotation| {
                    (names[2][&fact.name_iid.unwrap()].clone(), spoken(fact, &names[2]))
                };
                let args: serde_json::Map<String, Value> = event.debug_annotations.iter().map(fact).collect();
                open.push(events.len());
                events.push(json!({
                    "line": line, "cat": names[0][&event.category_iids[0]], "name": names[1][&event.name_iid.unwrap()],
                    "start": at, "args": args, "out": event.flow_ids, "in": event.terminating_flow_ids,
                }));
            }
            Some(SLICE_END) => {
                let began: &mut Value = &mut events[open.pop().expect("something is open")];
                assert_eq!(began["line"], line);
                began["end"] = at.into();
            }
            Some(COUNTER) => events.push(json!([line, at, event.counter_value])),
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty());
    events
}

fn spoken(fact: &DebugAnnotation, names: &std::collections::HashMap<u64, String>) -> Value {
    match (&fact.string_value, fact.uint_value) {
        (Some(text), None) => text.as_str().into(),
        (None, Some(number)) => number.into(),
        (None, None) => {
            let entries = fact.dict_entries.iter();
            entries.map(|entry| (names[&entry.name_iid.unwrap()].clone(), spoken(entry, names))).collect()
        }
        both => panic!("{both:?}"),
    }
}

fn of_chrome(bytes: &[u8]) -> Vec<Value> {
    let trace: Value = serde_json::from_slice(bytes).expect("JSON");
    // Parse times from the text, because a float would round.
    let texts = std::str::from_utf8(bytes).expect("text").lines().skip(1);
    let ns = |text: &str, key: &str| {
        let (_, from) = text.split_once(key).expect("a time");
        let (whole, part) = from.split_once('.').expect("decimals");
        whole.parse::<u64>().expect("a number") * 1000 + part[..3].parse::<u64>().expect("three of them")
    };
    let (mut lines, mut events): (std::collections::HashMap<u64, Value>, Vec<Value>) = Default::default();
    for (event, text) in trace["traceEvents"].as_array().expect("events").iter().zip(texts) {
        let line = event["tid"].as_u64();
        match event["ph"].as_str().expect("a kind") {
            "M" if event["name"] == "thread_name" => {
                lines.insert(line.unwrap(), event["args"]["name"].clone());
            }
            "M" => {}
            "X" => {
                let (start, took) = (ns(text, "\"ts\":"), ns(text, "\"dur\":"));
                events.push(json!({
                    "line": lines[&line.unwrap()], "cat": event["cat"], "name": event["name"], "start": start,
                    "end": start + took, "args": event["args"], "out": [], "in": [],
                }));
            }
            "s" => events.last_mut().unwrap()["out"].as_array_mut().unwrap().push(event["id"].clone()),
            "f" => events.last_mut().unwrap()["in"].as_array_mut().unwrap().push(event["id"].clone()),
            "C" => {
                let value = event["args"].as_object().unwrap().values().next().cloned();
                events.push(json!([event["name"], ns(text, "\"ts\":"), value]));
            }
            other => panic!("{other}"),
        }
    }
    events
}

fn are_the_same(dump: &Dump) -> (Vec<Value>, TraceCounts) {
    let (perfetto, counts) = written(TraceFormat::Perfetto, dump);
    let (chrome, again) = written(TraceFormat::Chrome, dump);
    assert_eq!(counts, again);
    let events = of_perfetto(&perfetto);
    for (event, other) in events.iter().zip(of_chrome(&chrome)) {
        assert_eq!(*event, other);
    }
    assert_eq!(events.len(), of_chrome(&chrome).len());
    (events, counts)
}

#[test]
fn both_formats_have_the_same_events() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = tensortap::RunConfig::new("mixed_example");
    config.device_mode = tensortap::DeviceMode::Thread;
    let level = tensortap::DumpLevel::Full;
    config.dump = Some(tensortap::DumpConfig { dump_args: true, ..tensortap::DumpConfig::new(level) });
    config.out = Some(folder.path().join("d"));
    let report = tensortap::run(&config).expect("a run");
    let dump = Dump::open(&folder.path().join("d")).unwrap();
    let (events, counts) = are_the_same(&dump);
    assert_eq!((counts.tasks, counts.dispatches), (report.tasks, report.dispatches));
    assert_eq!(counts.flows, dump.edges().unwrap().len() as u64);
    let slices = events.iter().filter(|event| event.is_object()).count() as u64;
    assert_eq!((slices, events.len() as u64 - slices), (counts.tasks + counts.dispatches, counts.samples));
    // Dispatches of a mix task are named after their own kernels.
    let names: std::collections::BTreeSet<&str> = events
        .iter()
        .filter(|event| event["cat"] == "dispatch")
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    assert!(["project", "bend", "tally"].iter().all(|kernel| names.contains(kernel)), "{names:?}");
}

#[test]
fn a_hostile_dump_gives_printable_names_and_valid_times() {
    let folder = tempfile::tempdir().unwrap();
    let edge = |from, to| {
        let cause = tensortap::abi::EdgeCause::Explicit;
        (0, IndexRecord::plain(&tensortap::abi::EdgeRecord::new(from, to, cause, 0)))
    };
    let times = [0, 1, 999, 1_000_001, i64::MAX as u64 - 1, i64::MAX as u64, 1 << 63, u64::MAX];
    let mut records = Vec::new();
    for (at, start) in (0_u64..).zip(times) {
        for (then, end) in (0_u64..).zip(times) {
            let id = at * 8 + then;
            records.extend([
                (1, task(id, start, end)),
                (1, dispatch(id, 0, start)),
                (1, ran(id, end, start)),
            ]);
        }
    }
    // Edges to itself, in a cycle, to a missing task.
    records.extend([edge(3, 3), edge(4, 5), edge(5, 4), edge(1, 1 << 40), edge(u64::MAX, 2)]);
    let dump = made(&folder.path().join("d"), "host_build_graph", &records);
    let (events, counts) = are_the_same(&dump);
    assert_eq!((counts.tasks, counts.dispatches, counts.flows), (64, 64, 3));
    let most = i64::MAX as u64;
    for event in events.iter().filter(|event| event.is_object()) {
        let (start, end) = (event["start"].as_u64().unwrap(), event["end"].as_u64().unwrap());
        assert!(start <= end && end <= most, "{event}");
        assert_eq!(event["name"], "kernel \\u{1b}[2J\\u{0}");
    }
}
