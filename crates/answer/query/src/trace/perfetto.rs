//! Perfetto's protobuf: the few messages and fields of its public format that a timeline needs.
//!
//! Everything is one packet sequence. Each name is defined once, by the packet that first uses it. Field
//! numbers are those of the format, which never change.

use std::collections::HashMap;
use std::io::{self, Write};

use prost::Message;

use super::{AnnotationValue, TraceSlice, TraceTrack, category};
use crate::timeline::{Counter, Unit};

/// Earlier packets define no names for this one.
pub(super) const STATE_CLEARED: u32 = 1;
/// This packet refers to names defined earlier.
pub(super) const NEEDS_STATE: u32 = 2;
/// The only sequence.
const SEQUENCE: u32 = 1;
pub(super) const SLICE_BEGIN: i32 = 1;
pub(super) const SLICE_END: i32 = 2;
pub(super) const COUNTER: i32 = 4;
const EXPLICIT_ORDER: i32 = 3;
const UNIT_TIME_NS: i32 = 1;
const UNIT_SIZE_BYTES: i32 = 3;
/// Field 1 of `Trace`, length-delimited: a trace is nothing but packets.
const PACKET_KEY: u8 = 0x0a;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
    #[prost(message, repeated, tag = "11")]
    pub dict_entries: Vec<DebugAnnotation>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<InternedName>,
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<InternedName>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedName {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
}

/// Names of one kind that are already defined in the trace.
#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    /// The id of a name. A new name is added to `new`.
    fn number(&mut self, name: &str, new: &mut Vec<InternedName>) -> u64 {
        if let Some(&iid) = self.0.get(name) {
            return iid;
        }
        let iid = self.0.len() as u64 + 1;
        self.0.insert(name.to_owned(), iid);
        new.push(InternedName { iid: Some(iid), name: Some(name.to_owned()) });
        iid
    }
}

pub(super) struct Perfetto<W> {
    out: W,
    buffer: Vec<u8>,
    is_first: bool,
    categories: Names,
    events: Names,
    annotations: Names,
}

/// The id of a track of a process; number 0 is the process itself.
fn uuid(pid: u32, number: u32) -> u64 {
    // Track id 0 is predefined in a trace.
    (u64::from(pid) << 32 | u64::from(number)) + 1
}

impl<W: Write> Perfetto<W> {
    pub(super) fn new(out: W) -> Perfetto<W> {
        let (categories, events, annotations) = Default::default();
        Perfetto { out, buffer: Vec::new(), is_first: true, categories, events, annotations }
    }

    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let flags = if self.is_first { STATE_CLEARED | NEEDS_STATE } else { NEEDS_STATE };
        self.is_first = false;
        let packet =
            TracePacket { trusted_packet_sequence_id: SEQUENCE, sequence_flags: Some(flags), ..packet };
        self.buffer.clear();
        self.buffer.push(PACKET_KEY);
        packet.encode_length_delimited(&mut self.buffer)?;
        self.out.write_all(&self.buffer)
    }

    fn descriptor(&mut self, descriptor: TrackDescriptor) -> io::Result<()> {
        self.packet(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })
    }

    pub(super) fn process(&mut self, pid: u32, name: &str) -> io::Result<()> {
        let process = ProcessDescriptor { pid: i32::try_from(pid).ok(), process_name: Some(name.into()) };
        self.descriptor(TrackDescriptor {
            uuid: Some(uuid(pid, 0)),
            name: Some(name.into()),
            process: Some(process),
            child_ordering: Some(EXPLICIT_ORDER),
            ..TrackDescriptor::default()
        })
    }

    pub(super) fn line(&mut self, line: &TraceTrack<'_>) -> io::Result<()> {
        self.descriptor(track(line.pid, line.number, line.name))
    }

    pub(super) fn slice(&mut self, pid: u32, number: u32, shown: &TraceSlice<'_>) -> io::Result<()> {
        let mut new = InternedData::default();
        let category = self.categories.number(category(shown.slice.what), &mut new.event_categories);
        let name = self.events.number(shown.name, &mut new.event_names);
        let names = &mut new.debug_annotation_names;
        let facts =
            shown.facts.iter().map(|(name, fact)| annotation(&mut self.annotations, names, name, fact));
        let event = TrackEvent {
            category_iids: vec![category],
            debug_annotations: facts.collect(),
            r#type: Some(SLICE_BEGIN),
            name_iid: Some(name),
            track_uuid: Some(uuid(pid, number)),
            flow_ids: shown.leaving.to_vec(),
            terminating_flow_ids: shown.entering.to_vec(),
            ..TrackEvent::default()
        };
        let interned_data = (new != InternedData::default()).then_some(new);
        let timestamp = Some(shown.slice.start_ns);
        self.packet(TracePacket {
            timestamp,
            track_event: Some(event),
            interned_data,
            ..TracePacket::default()
        })
    }

    pub(super) fn end(&mut self, pid: u32, number: u32, at_ns: u64) -> io::Result<()> {
        let event = TrackEvent {
            r#type: Some(SLICE_END),
            track_uuid: Some(uuid(pid, number)),
            ..TrackEvent::default()
        };
        self.packet(TracePacket {
            timestamp: Some(at_ns),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    pub(super) fn counter(&mut self, pid: u32, number: u32, counter: &Counter) -> io::Result<()> {
        let unit = match counter.unit {
            Unit::Bytes => UNIT_SIZE_BYTES,
            Unit::Nanoseconds => UNIT_TIME_NS,
        };
        let counting = Some(CounterDescriptor { unit: Some(unit) });
        self.descriptor(TrackDescriptor { counter: counting, ..track(pid, number, counter.name) })?;
        for &(at_ns, value) in &counter.samples {
            let event = TrackEvent {
                r#type: Some(COUNTER),
                track_uuid: Some(uuid(pid, number)),
                counter_value: Some(i64::try_from(value).unwrap_or(i64::MAX)),
                ..TrackEvent::default()
            };
            let timestamp = Some(at_ns);
            self.packet(TracePacket { timestamp, track_event: Some(event), ..TracePacket::default() })?;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn track(pid: u32, number: u32, name: &str) -> TrackDescriptor {
    TrackDescriptor {
        uuid: Some(uuid(pid, number)),
        parent_uuid: Some(uuid(pid, 0)),
        name: Some(name.to_owned()),
        sibling_order_rank: i32::try_from(number).ok(),
        ..TrackDescriptor::default()
    }
}

fn annotation(
    names: &mut Names,
    new: &mut Vec<InternedName>,
    name: &str,
    fact: &AnnotationValue,
) -> DebugAnnotation {
    let mut annotation = DebugAnnotation { name_iid: Some(names.number(name, new)), ..Default::default() };
    match fact {
        AnnotationValue::Text(text) => annotation.string_value = Some(text.clone()),
        AnnotationValue::Number(number) => annotation.uint_value = Some(*number),
        AnnotationValue::Texts(texts) => {
            annotation.dict_entries = texts
                .iter()
                .map(|(name, text)| DebugAnnotation {
                    name_iid: Some(names.number(name, new)),
                    string_value: Some(text.clone()),
                    ..DebugAnnotation::default()
                })
                .collect();
        }
    }
    annotation
}
