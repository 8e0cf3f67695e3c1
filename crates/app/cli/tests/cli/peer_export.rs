//! Exports of real dumps of the public project `simpler`, compared with an independent decoder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::dumps::Folder;

/// The folder of real dumps; `None`, with a notice, if it is missing.
fn peer_dumps() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/peer-dumps");
    let dir = std::env::var_os("TENSORTAP_PEER_DUMPS").map_or(default, PathBuf::from);
    if dir.is_dir() {
        return Some(dir);
    }
    eprintln!("notice: there are no peer dumps at {}; set TENSORTAP_PEER_DUMPS", dir.display());
    None
}

/// The manifest of a dump and its folder: the only JSON file with records that have offsets.
fn manifest(dir: &Path) -> (PathBuf, Vec<Value>, Option<String>) {
    let inner = dir.join("args_dump");
    let folder = if inner.is_dir() { inner } else { dir.to_path_buf() };
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let json: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let records = json["tensors"].as_array().or(json["args"].as_array());
        if let Some(records) = records.filter(|records| records.iter().all(|r| r["bin_offset"].is_u64())) {
            return (folder, records.clone(), json["bin_file"].as_str().map(Into::into));
        }
    }
    panic!("no manifest in {}", dir.display());
}

/// Data of a `.npy` file of version 1, and its header.
fn npy(path: &Path) -> (String, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    (String::from_utf8(bytes[10..10 + length].to_vec()).unwrap(), bytes[10 + length..].to_vec())
}

#[test]
fn exported_values_equal_the_payload_file() {
    let Some(dumps) = peer_dumps() else { return };
    let (mut dumps_seen, mut tensors_seen) = (0, 0);
    for entry in fs::read_dir(&dumps).unwrap() {
        let dump = entry.unwrap().path();
        if !dump.is_dir() {
            continue;
        }
        dumps_seen += 1;
        let folder = Folder::new();
        folder.good(&format!("export {} --format npy --out out", dump.display()));
        let exported: Value =
            serde_json::from_str(&fs::read_to_string(folder.path("out/tensortap_export.json")).unwrap())
                .unwrap();
        let (dir, records, bin_file) = manifest(&dump);
        let arrays = exported["arrays"].as_array().unwrap();
        assert_eq!(arrays.len() + exported["skipped"].as_array().unwrap().len(), records.len(), "{dump:?}");
        let payloads = bin_file.map(|name| fs::read(dir.join(name)).unwrap()).unwrap_or_default();
        for array in arrays {
            let record = &records[usize::try_from(array["index"].as_u64().unwrap()).unwrap()];
            assert_eq!(record["dtype"].as_str().unwrap().to_lowercase(), array["dtype"].as_str().unwrap());
            let (header, data) = npy(&folder.path("out").join(array["file"].as_str().unwrap()));
            if record["kind"] == "scalar" {
                assert!(header.contains("'shape': ()"), "{header}");
                let bits = record["dtype"].as_str().unwrap().trim_start_matches(char::is_alphabetic);
                assert_eq!(data.len(), bits.parse::<usize>().unwrap() / 8, "{record}");
                continue;
            }
            tensors_seen += 1;
            let at = |key: &str| usize::try_from(record[key].as_u64().unwrap()).unwrap();
            assert_eq!(data, payloads[at("bin_offset")..][..at("bin_size")], "{dump:?}: {record}");
        }
        values_by_numpy(&dir, &folder.path("out"));
    }
    assert!(dumps_seen >= 11 && tensors_seen >= 100, "{dumps_seen} dumps, {tensors_seen} tensors");
}

/// Every value, including scalars, decoded by numpy from the manifest and the payload file.
const SCRIPT: &str = r#"
import sys, json, glob, os
import numpy as np
folder, out = sys.argv[1:3]
def manifest():
    for name in glob.glob(os.path.join(folder, "*.json")):
        document = json.load(open(name))
        records = document.get("tensors") or document.get("args")
        if records and all("bin_offset" in record for record in records):
            return records, document.get("bin_file")
records, bin_file = manifest()
payload = open(os.path.join(folder, bin_file), "rb").read() if bin_file else b""
for array in json.load(open(os.path.join(out, "tensortap_export.json")))["arrays"]:
    record = records[array["index"]]
    got = np.load(os.path.join(out, array["file"]))
    assert list(got.shape) == record["shape"], (array, got.shape)
    if record.get("kind") == "scalar":
        assert got == got.dtype.type(record["value"]), (record, got)
        continue
    raw = payload[record["bin_offset"]:record["bin_offset"] + record["bin_size"]]
    if record["dtype"] == "BFLOAT16":
        widen = lambda bits: (bits.astype(np.uint32) << 16).view(np.float32)
        expected, got = widen(np.frombuffer(raw, "<u2")), widen(got.reshape(-1))
    else:
        expected = np.frombuffer(raw, np.dtype(record["dtype"].lower()).newbyteorder("<"))
        assert got.dtype == expected.dtype, (got.dtype, expected.dtype)
    assert np.array_equal(got.reshape(-1), expected, equal_nan=True), array
"#;

fn values_by_numpy(dump: &Path, out: &Path) {
    let python = std::env::var_os("TENSORTAP_PYTHON").unwrap_or_else(|| "python3".into());
    let mut asked = Command::new(&python);
    if !asked.args(["-c", "import numpy"]).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    {
        eprintln!("notice: {} lacks numpy; only bytes were compared", python.display());
        return;
    }
    let status = Command::new(&python).args(["-c", SCRIPT]).args([dump, out]).status().unwrap();
    assert!(status.success(), "numpy found a difference in {}", dump.display());
}
