"""A trace of Perfetto, decoded with the format's own messages, as one JSON document: lines with their slices, flows, samples of counters."""

import json
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

CLEARED, NEEDED = 1, 2


def value(annotation, names):
    if annotation.dict_entries:
        return {names[entry.name_iid]: value(entry, names) for entry in annotation.dict_entries}
    return getattr(annotation, annotation.WhichOneof("value"))


def main():
    trace = Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    tracks, slices, samples, open_slices = {}, [], [], {}
    categories, events, annotations = {}, {}, {}
    cleared = False
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        cleared = cleared or packet.sequence_flags & CLEARED
        assert cleared and packet.sequence_flags & NEEDED
        for known, new in (
            (categories, packet.interned_data.event_categories),
            (events, packet.interned_data.event_names),
            (annotations, packet.interned_data.debug_annotation_names),
        ):
            for entry in new:
                assert known.setdefault(entry.iid, entry.name) == entry.name
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks
            tracks[track.uuid] = track
        if not packet.HasField("track_event"):
            continue
        event, at = packet.track_event, packet.timestamp
        track = tracks[event.track_uuid]
        process = tracks[track.parent_uuid].process.process_name
        stack = open_slices.setdefault(track.uuid, [])
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert not stack or stack[-1]["start"] <= at
            stack.append({
                "process": process,
                "line": track.name,
                "cat": categories[event.category_iids[0]],
                "name": events[event.name_iid],
                "start": at,
                "args": {annotations[a.name_iid]: value(a, annotations) for a in event.debug_annotations},
                "leaving": list(event.flow_ids),
                "entering": list(event.terminating_flow_ids),
            })
        elif event.type == TrackEvent.TYPE_SLICE_END:
            ended = stack.pop()
            assert ended["start"] <= at
            slices.append({**ended, "dur": at - ended["start"]})
        else:
            assert event.type == TrackEvent.TYPE_COUNTER and track.HasField("counter")
            samples.append([process, track.name, at, event.counter_value])
    assert not any(open_slices.values())
    json.dump({"slices": slices, "samples": samples}, sys.stdout)


main()
