use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tensortap_abi::DType;
use tensortap_interchange::{ArrayHead, ArrayWriter, Content, InterchangeError, NamedArrays, read_txt};

fn npy(text: &str, data: usize) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    file.extend(text.as_bytes());
    file.resize(file.len() + data, 7);
    file
}

fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + data, 7);
    file
}

fn written(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn refusal(name: &str, bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), name, bytes);
    let message = NamedArrays::open(&path).unwrap_err().to_string();
    assert!(message.contains(name), "the message names the file: {message}");
    assert!(message.contains("; "), "the message says what to do: {message}");
    message
}

#[test]
fn truncated_npy_files_are_rejected() {
    let header = |shape: &str| format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
    assert!(refusal("a.npy", &npy(&header("(2,)"), 15)).contains(
        "should have 16 bytes, but the file has \
     only 15"
    ));
    for shape in
        ["(9223372036854775807, 9223372036854775807)", "(18446744073709551615,)", "(4294967296, 4294967296)"]
    {
        assert!(refusal("a.npy", &npy(&header(shape), 16)).contains("should have"), "{shape}");
    }
    for shape in ["(-1,)", "(1.5,)", "(99999999999999999999999,)", "[2]", "(2", "(,)", "2"] {
        assert!(refusal("a.npy", &npy(&header(shape), 16)).contains("cannot be read as npy"), "{shape}");
    }
    let many = format!("({})", "1,".repeat(65));
    assert!(refusal("a.npy", &npy(&header(&many), 8)).contains("more dimensions"));
    assert!(refusal("a.npy", b"").contains("does not start with the npy magic"));
    assert!(
        refusal("a.npy", &npy("{'descr': '<c32', 'fortran_order': False, 'shape': ()}", 16)).contains("<c32")
    );
}

#[test]
fn contradictory_safetensors_files_are_rejected() {
    let tensor = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    for (header, words) in [
        (tensor("F32", "[2]", "[0,9]"), "contradict its shape"),
        (tensor("F32", "[2]", "[8,0]"), "contradict its shape"),
        (tensor("F32", "[4294967296,4294967296]", "[0,8]"), "contradict its shape"),
        (tensor("F32", "[2]", "[8,16]"), "should have 8 bytes"),
        (tensor("F32", "[2]", "[18446744073709551600,18446744073709551608]"), "should have 8 bytes"),
        (tensor("F32", "[-2]", "[0,8]"), "its header is damaged"),
        (tensor("C32", "[1]", "[0,8]"), "elements of type C32"),
        ("[".repeat(100_000), "its header is damaged"),
        (r#"{"t":1}"#.into(), "its header is damaged"),
        (r#"{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}"#.into(), "two members are named"),
        ("{}".into(), "there are no arrays"),
    ] {
        let message = refusal("a.safetensors", &safetensors(&header, 8));
        assert!(message.contains(words), "{message}");
    }
    assert!(refusal("a.safetensors", &u64::MAX.to_le_bytes()).contains("18446744073709551615"));
    assert!(refusal("a.safetensors", b"abc").contains("ends within its header"));
}

#[test]
fn invalid_archives_are_rejected() {
    assert!(refusal("a.npz", b"PK\x03\x04 and nothing more").contains("cannot be read as npz"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npz");
    let content = vec![1_u8; 1000];
    let arrays: [(ArrayHead<'_>, &dyn Content); 1] =
        [(ArrayHead { name: "a", dtype: DType::UInt8, shape: &[1000] }, &content)];
    ArrayWriter::new().npz(&path, &arrays).unwrap();
    let bytes = fs::read(&path).unwrap();
    for cut in (0..bytes.len()).step_by(7) {
        fs::write(&path, &bytes[..cut]).unwrap();
        assert!(NamedArrays::open(&path).is_err(), "cut at {cut}");
    }
}

#[test]
fn a_duplicate_name_is_an_error_that_names_both_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let array = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", 1);
    written(dir.path(), "x.npy", &array);
    written(&dir.path().join("sub"), "x.npy", &array);
    let message = NamedArrays::open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("sub/x.npy") && message.contains("two arrays are named x"), "{message}");
}

#[test]
fn a_folder_without_arrays_and_a_file_of_another_kind_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let other = written(dir.path(), "notes.md", b"hello");
    for path in [dir.path(), &other] {
        assert!(matches!(NamedArrays::open(path), Err(InterchangeError::NoArrays { .. })));
    }
    assert!(matches!(NamedArrays::open(&dir.path().join("missing")), Err(InterchangeError::Io { .. })));
}

#[test]
fn a_file_truncated_after_it_was_opened_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path =
        written(dir.path(), "x.npy", &npy("{'descr': '|u1', 'fortran_order': False, 'shape': (9,)}", 9));
    let opened = NamedArrays::open(&path).unwrap();
    fs::write(&path, b"").unwrap();
    assert!(opened.arrays()[0].content().is_err());
}

#[test]
fn text_with_a_wrong_element_names_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let text = "# dtype: int8\n# shape: [2]\nOverview\n[:] 1 2\nDetail\n1\n300\n";
    let path = written(dir.path(), "x.txt", text.as_bytes());
    assert!(read_txt(&path).unwrap_err().to_string().contains("line 7: not a valid int8"));
    let path = written(dir.path(), "y.txt", &vec![b'x'; 1 << 17]);
    assert!(read_txt(&path).unwrap_err().to_string().contains("line 1 is longer than"));
    let path = written(dir.path(), "z.txt", b"# dtype: int8\n# shape: [18446744073709551615,3]\nDetail\n1\n");
    assert!(read_txt(&path).unwrap_err().to_string().contains("it has 1 elements"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_errors_or_arrays_within_the_file(
        format in prop::sample::select(&["npy", "npz", "safetensors"][..]),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(format!("a.{format}"));
        let content = vec![3_u8; 64];
        let head = ArrayHead { name: "a", dtype: DType::Float32, shape: &[4, 4] };
        let arrays: [(ArrayHead<'_>, &dyn Content); 1] = [(head, &content)];
        match format {
            "npy" => ArrayWriter::new().npy(&path, &head, &content),
            "npz" => ArrayWriter::new().npz(&path, &arrays),
            _ => ArrayWriter::new().safetensors(&path, &arrays, &[]),
        }.unwrap();
        let mut bytes = fs::read(&path).unwrap();
        for (place, value) in flips {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(opened) = NamedArrays::open(&path) {
            for array in opened.arrays() {
                // Only deflate expands to more bytes than the file has, and nothing here is deflated.
                prop_assert!(array.content().is_err() || array.bytes() <= bytes.len() as u64 * 1100 + 1100);
            }
        }
    }
}
