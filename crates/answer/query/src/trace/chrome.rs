//! Chrome trace JSON, one event per line. Times are microseconds with three decimals, which keeps nanoseconds
//! exact.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

use super::{AnnotationValue, TraceSlice, TraceTrack, category};
use crate::timeline::{Counter, Unit};

pub(super) struct Chrome<W> {
    out: W,
    is_first: bool,
}

impl Serialize for AnnotationValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            AnnotationValue::Text(text) => serializer.serialize_str(text),
            AnnotationValue::Number(number) => serializer.serialize_u64(*number),
            AnnotationValue::Texts(texts) => {
                serializer.collect_map(texts.iter().map(|(name, text)| (name, text)))
            }
        }
    }
}

/// Annotations as a JSON object.
struct Annotations<'a>(&'a [(&'static str, AnnotationValue)]);

impl Serialize for Annotations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, fact)| (name, fact)))
    }
}

/// A value as JSON text.
fn json(value: &(impl Serialize + ?Sized)) -> io::Result<String> {
    Ok(serde_json::to_string(value)?)
}

/// Nanoseconds as microseconds.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

impl<W: Write> Chrome<W> {
    pub(super) fn new(mut out: W) -> io::Result<Chrome<W>> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Chrome { out, is_first: true })
    }

    /// Writes an event of a process: its phase, its name, and the other fields as JSON.
    fn event(&mut self, kind: char, name: &str, pid: u32, rest: &str) -> io::Result<()> {
        let between = if self.is_first { "" } else { "," };
        self.is_first = false;
        let name = json(name)?;
        write!(self.out, "{between}\n{{\"ph\":\"{kind}\",\"name\":{name},\"pid\":{pid},{rest}}}")
    }

    pub(super) fn process(&mut self, pid: u32, name: &str) -> io::Result<()> {
        self.event('M', "process_name", pid, &format!("\"args\":{{\"name\":{}}}", json(name)?))?;
        self.event('M', "process_sort_index", pid, &format!("\"args\":{{\"sort_index\":{pid}}}"))
    }

    pub(super) fn line(&mut self, line: &TraceTrack<'_>) -> io::Result<()> {
        let (pid, tid, name) = (line.pid, line.number, json(line.name)?);
        self.event('M', "thread_name", pid, &format!("\"tid\":{tid},\"args\":{{\"name\":{name}}}"))?;
        self.event('M', "thread_sort_index", pid, &format!("\"tid\":{tid},\"args\":{{\"sort_index\":{tid}}}"))
    }

    pub(super) fn slice(&mut self, pid: u32, tid: u32, shown: &TraceSlice<'_>) -> io::Result<()> {
        let slice = shown.slice;
        let (ts, dur) = (micros(slice.start_ns), micros(slice.duration_ns));
        let (cat, args) = (category(slice.what), json(&Annotations(shown.facts))?);
        let rest = format!("\"cat\":\"{cat}\",\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{args}");
        self.event('X', shown.name, pid, &rest)?;
        for id in shown.leaving {
            let rest = format!("\"cat\":\"flow\",\"tid\":{tid},\"ts\":{ts},\"id\":{id}");
            self.event('s', "dependency", pid, &rest)?;
        }
        for id in shown.entering {
            // Bind the flow to the enclosing slice instead of the next one.
            let rest = format!("\"cat\":\"flow\",\"tid\":{tid},\"ts\":{ts},\"id\":{id},\"bp\":\"e\"");
            self.event('f', "dependency", pid, &rest)?;
        }
        Ok(())
    }

    pub(super) fn counter(&mut self, pid: u32, counter: &Counter) -> io::Result<()> {
        let unit = match counter.unit {
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "ns",
        };
        for &(at_ns, value) in &counter.samples {
            let rest = format!("\"ts\":{},\"args\":{{\"{unit}\":{value}}}", micros(at_ns));
            self.event('C', counter.name, pid, &rest)?;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}
