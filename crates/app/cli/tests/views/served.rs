//! A running `tensortap serve`, and dumps for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tensortap::DeviceMode;
use tensortap::abi::{NO_KERNEL, Role, TaskRecord, TensorRecord};
use tensortap::format::{DumpWriter, Footer, IndexRecord, KernelInfo, Payload, RunInfo, Status};
use tensortap::{DType, DumpConfig, DumpLevel, DumpStage, RunConfig};

use crate::common::executable;

/// A running `tensortap serve`, with its address.
pub struct ServeProcess {
    child: Child,
    pub address: String,
}

impl ServeProcess {
    pub fn start(args: &[&str]) -> ServeProcess {
        let mut child = Command::new(executable())
            .arg("serve")
            .arg("--no-open")
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut address).expect("a line");
        ServeProcess { child, address: address.trim().to_owned() }
    }

    pub fn port(&self) -> u16 {
        let rest = self.address.strip_prefix("http://127.0.0.1:").expect("loopback");
        rest.split('/').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// The token header that pages send.
    pub fn token(&self) -> String {
        format!("X-Tensortap-Token: {}", self.address.split("#token=").nth(1).expect("a token"))
    }

    /// Sends a request with these lines and returns the whole answer, head and body.
    pub fn raw(&self, lines: &[&str]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).expect("it listens");
        let request = lines.join("\r\n") + "\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Requests a document as a page does.
    pub fn document(&self, path: &str) -> Value {
        let host = format!("Host: 127.0.0.1:{}", self.port());
        let answer = self.raw(&[&format!("GET {path} HTTP/1.1"), &host, &self.token()]);
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        serde_json::from_str(body).unwrap_or_else(|_| panic!("{path}: {answer}"))
    }

    /// Sends a POST request and returns the document.
    pub fn post(&self, path: &str) -> Value {
        let host = format!("Host: 127.0.0.1:{}", self.port());
        let answer = self.raw(&[&format!("POST {path} HTTP/1.1"), &host, &self.token(), "Content-Length: 0"]);
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        serde_json::from_str(body).unwrap_or_else(|_| panic!("{path}: {answer}"))
    }

    /// Waits until a job has ended.
    pub fn ended(&self, mut job: Value) -> Value {
        while job["state"] == "running" {
            std::thread::sleep(std::time::Duration::from_millis(20));
            job = self.document(&format!("/api/job?job={}", job["job"]));
        }
        job
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a small language model, with or without an injected fault.
pub fn run_tiny(folder: &Path, name: &str, fault: Option<(&str, &str)>) -> PathBuf {
    run_tokens(folder, name, 4, fault)
}

/// The same with more tokens; each token has about 108 tasks.
pub fn run_tokens(folder: &Path, name: &str, tokens: u32, fault: Option<(&str, &str)>) -> PathBuf {
    let mut config = RunConfig::new("tiny_llm").param("tokens", tokens).param("prompt", 2);
    config.device_mode = DeviceMode::Thread;
    config.dump = Some(DumpConfig::new(DumpLevel::Full));
    config.out = Some(folder.join(name));
    config.inject_fault = fault.map(|(kernel, kind)| (kernel.into(), kind.parse().expect("a fault")));
    crate::common::count_run();
    tensortap::run(&config).expect("it runs");
    folder.join(name)
}

pub fn task(task_id: u64) -> IndexRecord {
    IndexRecord::plain(&TaskRecord {
        task_id,
        func_id: [NO_KERNEL, 0, NO_KERNEL],
        block_num: 1,
        started_ns: task_id,
        completed_ns: u64::MAX - task_id,
        tensor_count: 1,
        ..TaskRecord::default()
    })
}

pub fn tensor(task_id: u64, shape: [u64; 2], payload: Payload) -> IndexRecord {
    let mut wide = [0; 8];
    wide[..2].copy_from_slice(&shape);
    IndexRecord::tensor(
        &TensorRecord {
            task_id,
            stage: DumpStage::AfterCompletion as u8,
            role: Role::Output.tag(),
            dtype: DType::Float32.tag(),
            ndims: 2,
            shape: wide,
            strides: [shape[1].cast_signed(), 1, 0, 0, 0, 0, 0, 0],
            ..TensorRecord::default()
        },
        payload,
    )
}

const ATTACK: &str = "<img src=x onerror=\"window.attacked=1\"><script>window.attacked=1</script>";

/// A dump whose texts are all HTML injections, with shapes that exceed any memory and only NaN values.
pub fn hostile(dir: &Path) {
    let kernel = KernelInfo { func_id: 0, name: format!("k{ATTACK}"), ..KernelInfo::default() };
    let info = RunInfo {
        scene: ATTACK.into(),
        platform: ATTACK.into(),
        kernels: vec![kernel],
        ..RunInfo::default()
    };
    let mut writer = DumpWriter::create(dir, &info).expect("created");
    let bytes: Vec<u8> = (0..64).flat_map(|_| f32::NAN.to_le_bytes()).collect();
    let offset = writer.reserve(bytes.len() as u64);
    writer.write_payload(offset, &bytes).expect("written");
    let stored = Payload::Stored { offset, bytes: 256 };
    let huge = [1 << 26, 1 << 24];
    let cut = Payload::Truncated { offset, bytes: 256 };
    let frame = [
        task(1),
        tensor(1, [8, 8], stored),
        task(2),
        tensor(2, huge, cut),
        task(3),
        tensor(3, huge, Payload::None),
    ];
    writer.append(0, 0..6, &frame).expect("appended");
    writer.finish(&Footer::new(Status::Complete)).expect("finished");
}
