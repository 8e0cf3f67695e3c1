use std::fs;
use std::io::Write;

use tensortap_abi::DType;
use tensortap_interchange::{
    ArrayHead, ArrayWriter, Content, EXPORT_MANIFEST_FILE, ExportManifest, ExportedArray, NamedArrays,
    numpy_storage, read_csv, read_txt,
};

use crate::sample;

fn head<'a>(dtype: DType, shape: &'a [u64]) -> ArrayHead<'a> {
    ArrayHead { name: dtype.name(), dtype, shape }
}

fn manifest() -> ExportManifest {
    let arrays = DType::ALL.map(|dtype| ExportedArray {
        name: dtype.name().into(),
        dtype: dtype.name().into(),
        shape: sample(dtype).0,
        ..ExportedArray::default()
    });
    ExportManifest { schema_version: 1, arrays: arrays.into(), ..ExportManifest::default() }
}

/// Opens files and checks every dtype, shape and byte.
fn assert_all_there(arrays: &NamedArrays) {
    assert_eq!(arrays.arrays().len(), DType::ALL.len());
    for dtype in DType::ALL {
        let (shape, content) = sample(dtype);
        let array = arrays.get(dtype.name()).unwrap();
        assert_eq!((array.dtype, &array.shape), (dtype, &shape));
        assert_eq!(array.content().unwrap(), content, "{dtype}");
        let mut part = [0; 5];
        array.read_part(3, &mut part).unwrap();
        assert_eq!(part, content[3..8], "{dtype}");
        assert!(array.read_part(content.len() as u64 - 4, &mut part).is_err());
    }
}

#[test]
fn npy_files_restore_every_dtype_with_the_manifest_and_keep_the_bits_without() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ArrayWriter::new();
    for dtype in DType::ALL {
        let (shape, content) = sample(dtype);
        let path = dir.path().join(format!("{dtype}.npy"));
        let bytes = writer.npy(&path, &head(dtype, &shape), &content).unwrap();
        assert_eq!(bytes, fs::metadata(&path).unwrap().len());
    }
    let bits = NamedArrays::open(dir.path()).unwrap();
    for dtype in DType::ALL {
        let (shape, content) = sample(dtype);
        let (array, stored) = (bits.get(dtype.name()).unwrap(), numpy_storage(dtype, &shape));
        assert_eq!((array.dtype, &array.shape), (stored.dtype, &stored.shape));
        assert_eq!(array.content().unwrap(), content);
    }
    fs::write(dir.path().join(EXPORT_MANIFEST_FILE), serde_json::to_string(&manifest()).unwrap()).unwrap();
    assert_all_there(&NamedArrays::open(dir.path()).unwrap());
    let one = NamedArrays::open(&dir.path().join("bfloat16.npy")).unwrap();
    assert_eq!(one.arrays()[0].dtype, DType::BFloat16, "the manifest next to a file counts");
}

#[test]
fn archives_restore_every_dtype() {
    let dir = tempfile::tempdir().unwrap();
    let samples: Vec<_> = DType::ALL.into_iter().map(|dtype| (dtype, sample(dtype))).collect();
    let arrays: Vec<(ArrayHead<'_>, &dyn Content)> = samples
        .iter()
        .map(|(dtype, (shape, content))| (head(*dtype, shape), content as &dyn Content))
        .collect();
    let mut writer = ArrayWriter::new();
    let path = dir.path().join("all.safetensors");
    let bytes = writer.safetensors(&path, &arrays, &[]).unwrap();
    assert_eq!(bytes, fs::metadata(&path).unwrap().len());
    assert_all_there(&NamedArrays::open(&path).unwrap());
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("all.npz");
    writer.npz(&path, &arrays).unwrap();
    fs::write(other.path().join(EXPORT_MANIFEST_FILE), serde_json::to_string(&manifest()).unwrap()).unwrap();
    assert_all_there(&NamedArrays::open(&path).unwrap());
}

#[test]
fn the_reference_reader_accepts_our_safetensors() {
    let dir = tempfile::tempdir().unwrap();
    let samples: Vec<_> = DType::ALL.into_iter().map(|dtype| (dtype, sample(dtype))).collect();
    let arrays: Vec<(ArrayHead<'_>, &dyn Content)> = samples
        .iter()
        .map(|(dtype, (shape, content))| (head(*dtype, shape), content as &dyn Content))
        .collect();
    let path = dir.path().join("all.safetensors");
    ArrayWriter::new().safetensors(&path, &arrays, &[]).unwrap();
    let bytes = fs::read(&path).unwrap();
    let read = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    for (dtype, (shape, content)) in &samples {
        let tensor = read.tensor(dtype.name()).unwrap();
        assert_eq!(tensor.data(), content, "{dtype}");
        if dtype.bits() > 4 && dtype.safetensors_name().is_some() {
            let sizes: Vec<u64> = tensor.shape().iter().map(|size| *size as u64).collect();
            assert_eq!(&sizes, shape, "{dtype}");
        }
    }
    let theirs = |name: &str| read.tensor(name).unwrap().dtype();
    assert_eq!(theirs("bfloat16"), safetensors::Dtype::BF16);
    assert_eq!(theirs("float8_e4m3fn"), safetensors::Dtype::F8_E4M3);
    assert_eq!(theirs("float8_e5m2"), safetensors::Dtype::F8_E5M2);
    assert_eq!(theirs("float8_e4m3fnuz"), safetensors::Dtype::F8_E4M3FNUZ);
    assert_eq!(theirs("float8_e5m2fnuz"), safetensors::Dtype::F8_E5M2FNUZ);
    assert_eq!(theirs("float8_e8m0fnu"), safetensors::Dtype::F8_E8M0);
    assert_eq!(theirs("complex64"), safetensors::Dtype::C64);
    let wide = read.tensor("complex128").unwrap();
    assert_eq!((wide.dtype(), wide.shape()), (safetensors::Dtype::F64, &[4, 8, 8, 2][..]));
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let note = &metadata.metadata().as_ref().unwrap()["int4"];
    assert_eq!(note, r#"{"dtype":"int4","shape":[3,5,7]}"#);
}

#[test]
fn text_reads_back_exactly_and_the_overview_has_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ArrayWriter::new();
    for dtype in DType::ALL {
        let (shape, content) = sample(dtype);
        let path = dir.path().join("array.txt");
        let notes = [("task_id", "0x1".to_string()), ("evil", "two\n# dtype: lines".to_string())];
        writer.txt(&path, &head(dtype, &shape), &notes, &content).unwrap();
        let read = read_txt(&path).unwrap();
        assert_eq!(
            (read.dtype, read.shape, read.content),
            (dtype, shape.clone(), content.clone()),
            "{dtype}"
        );
        assert_eq!(
            read.notes[..2],
            [("task_id".into(), "0x1".into()), ("evil".into(), "two # dtype: lines".into())]
        );
        let path = dir.path().join("array.csv");
        writer.csv(&path, &head(dtype, &shape), &content).unwrap();
        assert_eq!(read_csv(&path, dtype, &shape).unwrap(), content, "{dtype}");
        assert!(read_csv(&path, dtype, &[3]).is_err());
        let columns = fs::read_to_string(&path).unwrap().lines().next().unwrap().split(',').count();
        assert_eq!(columns as u64, *shape.last().unwrap());
    }
    let path = dir.path().join("long.txt");
    let content: Vec<u8> = (0..40_u16).flat_map(u16::to_le_bytes).collect();
    writer.txt(&path, &head(DType::UInt16, &[2, 20]), &[], &content).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let expected = "# dtype: uint16\n# shape: [2, 20]\nOverview\n[0, :] 0 1 2 3 ... 16 17 18 19\n\
                    [1, :] 20 21 22 23 ... 36 37 38 39\nDetail\n0\n1\n2\n";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn scalars_and_empty_arrays_are_supported() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ArrayWriter::new();
    for (name, dtype, shape, content) in [
        ("scalar", DType::Int64, &[][..], (-5_i64).to_le_bytes().to_vec()),
        ("nibble", DType::Int4, &[], vec![0xd]),
        ("empty", DType::Float32, &[3, 0, u64::MAX], vec![]),
    ] {
        let head = ArrayHead { name, dtype, shape };
        let arrays: [(ArrayHead<'_>, &dyn Content); 1] = [(head, &content)];
        writer.npy(&dir.path().join(format!("{name}.npy")), &head, &content).unwrap();
        let array = NamedArrays::open(&dir.path().join(format!("{name}.npy"))).unwrap();
        assert_eq!(array.arrays()[0].content().unwrap(), content);
        writer.safetensors(&dir.path().join("one.safetensors"), &arrays, &[]).unwrap();
        let array = NamedArrays::open(&dir.path().join("one.safetensors")).unwrap();
        assert_eq!((&array.arrays()[0].shape[..], array.arrays()[0].dtype), (shape, dtype));
        writer.txt(&dir.path().join("one.txt"), &head, &[], &content).unwrap();
        assert_eq!(read_txt(&dir.path().join("one.txt")).unwrap().content, content);
        writer.csv(&dir.path().join("one.csv"), &head, &content).unwrap();
        assert_eq!(read_csv(&dir.path().join("one.csv"), dtype, shape).unwrap(), content);
    }
}

#[test]
fn arrays_larger_than_a_piece_are_complete() {
    let dir = tempfile::tempdir().unwrap();
    for bytes in [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (2 << 20) - 128, 3 << 20] {
        let content: Vec<u8> =
            (0..bytes).map(|at: u32| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let shape = [u64::from(bytes)];
        let path = dir.path().join("large.npy");
        ArrayWriter::new().npy(&path, &head(DType::UInt8, &shape), &content).unwrap();
        assert!(NamedArrays::open(&path).unwrap().arrays()[0].content().unwrap() == content, "{bytes}");
        let path = dir.path().join("large.bin");
        ArrayWriter::new().raw(&path, &head(DType::UInt8, &shape), &content).unwrap();
        assert!(fs::read(&path).unwrap() == content, "{bytes}");
    }
}

#[test]
fn files_are_replaced_links_are_not_followed_and_failures_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, path) = (dir.path().join("outside"), dir.path().join("array.npy"));
    fs::write(&outside, "precious").unwrap();
    std::os::unix::fs::symlink(&outside, &path).unwrap();
    let content = vec![1_u8, 2, 3];
    ArrayWriter::new().npy(&path, &head(DType::UInt8, &[3]), &content).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    let error = ArrayWriter::new().npy(&path, &head(DType::UInt8, &[4]), &content).unwrap_err();
    assert!(error.to_string().contains("has 3 bytes but its shape needs 4"), "{error}");
    assert!(!path.exists());
}

#[test]
fn compressed_archives_of_other_tools_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let npy = dir.path().join("array.npy");
    let content: Vec<u8> = (0..2000_u32).flat_map(|value| (value / 100).to_le_bytes()).collect();
    ArrayWriter::new().npy(&npy, &head(DType::UInt32, &[50, 40]), &content).unwrap();
    let path = dir.path().join("packed.npz");
    let mut archive = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    archive.start_file("weights/w.npy", options).unwrap();
    archive.write_all(&fs::read(&npy).unwrap()).unwrap();
    archive.start_file("readme.txt", options).unwrap();
    archive.finish().unwrap();
    let arrays = NamedArrays::open(&path).unwrap();
    assert_eq!(arrays.arrays().len(), 1);
    let array = arrays.get("weights/w").unwrap();
    assert_eq!((array.content().unwrap(), array.numel()), (content.clone(), 2000));
    let mut part = [0; 8];
    array.read_part(4000, &mut part).unwrap();
    assert_eq!(part, content[4000..4008]);
}
