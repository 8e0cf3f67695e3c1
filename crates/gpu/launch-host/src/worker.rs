//! The worker process.

use std::os::unix::net::UnixStream;

use serde::Serialize;
use tensortap_platform::{send_message, worker_requests, worker_socket};

use crate::{Driver, Failure, Request, Response};

type Reply<D> = (Response<<D as Driver>::Device, <D as Driver>::Outcome>, Vec<Vec<u8>>);

/// Runs as a worker of this kind and never returns, if this process was started as one. Otherwise returns at
/// once.
pub fn become_worker_if_asked<D: Driver>() {
    if std::env::var_os(D::WORKER_VARIABLE).is_none() {
        return;
    }
    let code = match work::<D>() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("tensortap {} worker: {error}", D::NAME);
            2
        }
    };
    std::process::exit(code)
}

fn work<D: Driver>() -> std::io::Result<()> {
    let mut socket = worker_socket()?;
    // If the system does not support it, the launch has the rights of any program of the user.
    let _ = rustix::thread::set_no_new_privs(true);
    let mut driver: Option<D> = None;
    for (text, parts) in worker_requests(&socket)? {
        let request = serde_json::from_slice(&text)?;
        let (answer, parts): Reply<D> = match serve(&mut driver, request, parts, &mut socket) {
            Ok(answer) => answer,
            Err(Failure::NotRun(why)) => (Response::Failed(why), Vec::new()),
            Err(Failure::Crashed(why)) => (Response::Crashed(why), Vec::new()),
        };
        send_response(&mut socket, &answer, &parts)?;
    }
    Ok(())
}

fn send_response(socket: &mut UnixStream, answer: &impl Serialize, parts: &[Vec<u8>]) -> std::io::Result<()> {
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    send_message(socket, &serde_json::to_vec(answer)?, &parts)
}

fn serve<D: Driver>(
    driver: &mut Option<D>,
    request: Request<D::Launch>,
    mut parts: Vec<Vec<u8>>,
    socket: &mut UnixStream,
) -> Result<Reply<D>, Failure> {
    let driver = match driver {
        Some(driver) => driver,
        None => driver.insert(D::open()?),
    };
    match request {
        Request::Devices => Ok((Response::Devices(driver.devices()), Vec::new())),
        Request::Launch(_) if parts.is_empty() => Err("a launch without an image".into()),
        Request::Launch(launch) => {
            let image = parts.remove(0);
            let mut built = || {
                let built: Response<D::Device, D::Outcome> = Response::Built;
                send_response(socket, &built, &[]).map_err(|error| error.to_string())
            };
            let ran = driver.launch(&launch, image, &mut parts, &mut built)?;
            Ok((Response::Ran(ran), parts))
        }
    }
}
