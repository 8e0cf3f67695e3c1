//! Reads our files with numpy and the `safetensors` package, if Python has them.

use std::fs;
use std::path::Path;
use std::process::Command;

use tensortap_abi::DType;
use tensortap_interchange::{ArrayHead, ArrayWriter, Content, NamedArrays, numpy_storage};

use crate::sample;

/// Position-weighted sum of a file's bytes. Stored for the files that numpy accepted.
fn place_sum(bytes: &[u8]) -> u64 {
    (1..).zip(bytes).fold(0, |sum: u64, (place, byte)| sum.wrapping_add(place * u64::from(*byte)))
}

fn python(script: &str, dir: &Path) -> Option<bool> {
    let python = std::env::var_os("TENSORTAP_PYTHON").unwrap_or_else(|| "python3".into());
    let has = |module: &str| {
        let mut asked = Command::new(&python);
        asked.args(["-c", &format!("import {module}")]).stderr(std::process::Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    };
    if !has("numpy") || !has("safetensors") {
        eprintln!("notice: {} lacks numpy or safetensors; only stored sums are compared", python.display());
        return None;
    }
    Some(Command::new(&python).args(["-c", script]).arg(dir).status().unwrap().success())
}

/// Reads every array with numpy and with the package, and compares it with a decoding of the raw bytes.
const SCRIPT: &str = r#"
import sys, os, json
import numpy as np
import safetensors, safetensors.numpy
folder = sys.argv[1]
NUMPY = dict(float64="<f8", float32="<f4", float16="<f2", int64="<i8", int32="<i4", int16="<i2", int8="i1",
             uint64="<u8", uint32="<u4", uint16="<u2", uint8="u1", bool="?", bfloat16="<u2", float8_e4m3fn="u1", float8_e5m2="u1",
             float8_e4m3fnuz="u1", float8_e5m2fnuz="u1", float8_e8m0fnu="u1", complex64="<c8", complex128="<c16")
TAGS = dict(float64="F64", float32="F32", float16="F16", bfloat16="BF16", float8_e4m3fn="F8_E4M3", float8_e5m2="F8_E5M2",
            int64="I64", int32="I32", int16="I16", int8="I8", uint64="U64", uint32="U32", uint16="U16", uint8="U8", bool="BOOL",
            float8_e4m3fnuz="F8_E4M3FNUZ", float8_e5m2fnuz="F8_E5M2FNUZ", float8_e8m0fnu="F8_E8M0", complex64="C64")
archive = np.load(os.path.join(folder, "all.npz"))
tensors = dict(safetensors.deserialize(open(os.path.join(folder, "all.safetensors"), "rb").read()))
arrays = json.load(open(os.path.join(folder, "arrays.json")))
assert set(archive.files) == set(arrays) == set(tensors)
for name, shape in arrays.items():
    raw = open(os.path.join(folder, name + ".bin"), "rb").read()
    if name in ("int4", "float4_e2m1"):
        expected = np.frombuffer(raw, "u1")
    else:
        expected = np.frombuffer(raw, NUMPY[name]).reshape(shape)
    for got in (np.load(os.path.join(folder, name + ".npy")), archive[name]):
        assert got.dtype == expected.dtype and got.shape == expected.shape, (name, got.dtype, got.shape)
        assert got.tobytes() == expected.tobytes(), name
    tensor = tensors[name]
    assert bytes(tensor["data"]) == raw, name
    if name in TAGS:
        assert tensor["dtype"] == TAGS[name] and list(tensor["shape"]) == shape, (name, tensor["dtype"])
supported = [n for n in arrays if n not in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "float4_e2m1") and "fnu" not in n]
with safetensors.safe_open(os.path.join(folder, "all.safetensors"), framework="numpy") as opened:
    for name in supported:
        expected = np.frombuffer(open(os.path.join(folder, name + ".bin"), "rb").read(), NUMPY[name])
        assert opened.get_tensor(name).tobytes() == expected.tobytes(), name
# And files that numpy writes, for us to read.
matrix = np.arange(24, dtype="<i4").reshape(2, 3, 4)
np.save(os.path.join(folder, "from_numpy_fortran.npy"), np.asfortranarray(matrix))
np.save(os.path.join(folder, "from_numpy_big.npy"), matrix.astype(">i4"))
np.save(os.path.join(folder, "from_numpy_complex.npy"), np.array([1 + 2j, -3.5j], ">c16"))
with open(os.path.join(folder, "from_numpy_v3.npy"), "wb") as out:
    np.lib.format.write_array(out, matrix, version=(3, 0))
np.savez_compressed(os.path.join(folder, "from_numpy.npz"), packed=matrix, scalar=np.float16(1.5))
safetensors.numpy.save_file({"matrix": matrix}, os.path.join(folder, "from_package.safetensors"))
"#;

#[test]
fn python_reads_our_arrays_and_we_read_those_of_python() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ArrayWriter::new();
    let samples: Vec<_> = DType::ALL.into_iter().map(|dtype| (dtype, sample(dtype))).collect();
    let mut names = serde_json::Map::new();
    for (dtype, (shape, content)) in &samples {
        let head = ArrayHead { name: dtype.name(), dtype: *dtype, shape };
        writer.npy(&dir.path().join(format!("{dtype}.npy")), &head, content).unwrap();
        writer.raw(&dir.path().join(format!("{dtype}.bin")), &head, content).unwrap();
        names.insert(dtype.name().into(), shape.clone().into());
    }
    let arrays: Vec<(ArrayHead<'_>, &dyn Content)> = samples
        .iter()
        .map(|(dtype, (shape, content))| {
            (ArrayHead { name: dtype.name(), dtype: *dtype, shape }, content as &dyn Content)
        })
        .collect();
    writer.npz(&dir.path().join("all.npz"), &arrays).unwrap();
    writer.safetensors(&dir.path().join("all.safetensors"), &arrays, &[]).unwrap();
    fs::write(dir.path().join("arrays.json"), serde_json::Value::from(names).to_string()).unwrap();
    let sum = |name: &str| place_sum(&fs::read(dir.path().join(name)).unwrap());
    let npy_sums = DType::ALL
        .iter()
        .fold(0_u64, |all, dtype| all.wrapping_mul(31).wrapping_add(sum(&format!("{dtype}.npy"))));
    let read_by_python = python(SCRIPT, dir.path());
    assert_ne!(read_by_python, Some(false), "Python found a difference");
    // An archive depends on the crate that writes it, so it has no stored sum.
    assert_eq!((npy_sums, sum("all.safetensors")), STORED_SUMS);
    if read_by_python == Some(true) {
        assert_theirs_are_read(dir.path());
    }
}

const STORED_SUMS: (u64, u64) = (7_273_198_693_194_066_346, 28_288_150_177);

fn assert_theirs_are_read(dir: &Path) {
    let expected: Vec<u8> = (0..24_i32).flat_map(i32::to_le_bytes).collect();
    for name in
        ["from_numpy_fortran.npy", "from_numpy_big.npy", "from_numpy_v3.npy", "from_package.safetensors"]
    {
        let opened = NamedArrays::open(&dir.join(name)).unwrap();
        let array = &opened.arrays()[0];
        assert_eq!((array.dtype, &array.shape[..]), (DType::Int32, &[2, 3, 4][..]), "{name}");
        assert_eq!(array.content().unwrap(), expected, "{name}");
    }
    let complex = NamedArrays::open(&dir.join("from_numpy_complex.npy")).unwrap();
    let (array, parts) = (&complex.arrays()[0], [1.0, 2.0, -0.0, -3.5].map(f64::to_le_bytes).concat());
    assert_eq!((array.dtype, array.content().unwrap()), (DType::Complex128, parts));
    let packed = NamedArrays::open(&dir.join("from_numpy.npz")).unwrap();
    assert_eq!(packed.get("packed").unwrap().content().unwrap(), expected);
    let scalar = packed.get("scalar").unwrap();
    assert_eq!(
        (scalar.dtype, scalar.shape.len(), scalar.content().unwrap()),
        (DType::Float16, 0, vec![0x00, 0x3e])
    );
    assert_eq!(numpy_storage(DType::Float16, &[]).dtype, DType::Float16);
}
