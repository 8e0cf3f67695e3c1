//! `tensortap serve`: rejected requests, and clients that try to block others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::common::executable;
use crate::served::{ServeProcess, hostile};

#[test]
fn rejects_requests_without_token_or_from_other_sites() {
    let folder = tempfile::tempdir().expect("a folder");
    hostile(&folder.path().join("dump"));
    let served = ServeProcess::start(&[folder.path().join("dump").to_str().expect("text")]);
    let host = format!("Host: 127.0.0.1:{}", served.port());
    let token = served.token();
    let get = "GET /api/dumps HTTP/1.1";
    let refused = |lines: &[&str]| {
        let answer = served.raw(lines);
        assert!(answer.starts_with("HTTP/1.1 403"), "{lines:?}: {answer}");
        assert!(!answer.contains("onerror") && !answer.contains("records"), "{answer}");
        assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
    };
    refused(&[get, &host]);
    refused(&[get, &host, "Cookie: tensortap_1=x"]);
    let cookie = token.replace("X-Tensortap-Token: ", &format!("Cookie: tensortap_{}=", served.port()));
    refused(&[get, &host, &cookie]);
    refused(&["GET / HTTP/1.1", "Host: evil.example"]);
    refused(&["GET /assets/app/main.js HTTP/1.1", &host, "Sec-Fetch-Site: same-site"]);
    refused(&[get, &host, &token, "Sec-Fetch-Site: cross-site"]);
    refused(&["GET http://evil.example/api/dumps HTTP/1.1", &host, &token]);
    refused(&[get, "Host: evil.example", &token]);
    refused(&[get, &host, &token, "Origin: http://evil.example"]);
    refused(&[
        "OPTIONS /api/dumps HTTP/1.1",
        &host,
        "Origin: http://evil.example",
        "Access-Control-Request-Method: GET",
    ]);
    let post = served.raw(&["POST /api/export?format=npy HTTP/1.1", &host, &token]);
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing was written");
    // The page itself needs no token, sets no cookie and contains nothing of a dump.
    let page = served.raw(&["GET / HTTP/1.1", &host]);
    assert!(page.starts_with("HTTP/1.1 200") && !page.to_lowercase().contains("set-cookie"), "{page}");
    assert!(!page.contains("onerror"), "{page}");
    let answer = served.raw(&[get, &host, &token]).to_lowercase();
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "content-type: application/json",
    ] {
        assert!(answer.contains(header), "{answer}");
    }
    // No request names a file.
    for path in [
        "/../../etc/passwd",
        "/assets/../Cargo.toml",
        "/api/records?dump=/etc",
        "/api/records?dump=7",
        "/etc/passwd",
    ] {
        let answer = served.raw(&[&format!("GET {path} HTTP/1.1"), &host, &token]);
        assert!(answer.starts_with("HTTP/1.1 40") && !answer.contains("root:"), "{path}: {answer}");
    }
}

/// Sends requests without reading answers until nothing more can be sent.
fn ask_and_never_read(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_nonblocking(true).expect("not waiting");
    let many = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").repeat(200);
    while stream.write(many.as_bytes()).is_ok() {}
    stream
}

#[test]
fn idle_and_unread_connections_do_not_block_others() {
    let folder = tempfile::tempdir().expect("a folder");
    hostile(&folder.path().join("dump"));
    let served = ServeProcess::start(&[folder.path().join("dump").to_str().expect("text")]);
    let port = served.port();
    let silent = || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    for hold in [&(|| ask_and_never_read(port)) as &dyn Fn() -> TcpStream, &silent] {
        let held: Vec<TcpStream> = (0..80).map(|_| hold()).collect();
        for _ in 0..3 {
            assert!(served.document("/api/dumps")["dumps"].is_array());
        }
        drop(held);
    }
}

#[test]
fn limits_requests_without_token_on_one_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    hostile(&folder.path().join("dump"));
    let served = ServeProcess::start(&[folder.path().join("dump").to_str().expect("text")]);
    let host = format!("Host: 127.0.0.1:{}", served.port());
    let answered = |ask: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port())).expect("it listens");
        stream.write_all(ask.repeat(200).as_bytes()).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("no more is asked");
        let mut all = Vec::new();
        // Requests sent after the last answer may reset the connection.
        let _ = stream.read_to_end(&mut all);
        String::from_utf8_lossy(&all).matches("HTTP/1.1 200").count()
    };
    assert_eq!(answered(&format!("GET /api/ping HTTP/1.1\r\n{host}\r\n{}\r\n\r\n", served.token())), 200);
    let strange = answered(&format!("GET / HTTP/1.1\r\n{host}\r\n\r\n"));
    assert!((1..=64).contains(&strange), "{strange}");
}

#[test]
fn reports_a_port_in_use_once() {
    let folder = tempfile::tempdir().expect("a folder");
    hostile(&folder.path().join("dump"));
    let dump = folder.path().join("dump");
    let served = ServeProcess::start(&[dump.to_str().expect("text")]);
    let port = served.port().to_string();
    let second = Command::new(executable())
        .args(["serve", "--no-open", "--port", &port])
        .arg(&dump)
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && stderr.contains(&port), "{stderr}");
    assert_eq!(stderr.matches("in use").count(), 1, "{stderr}");
}
