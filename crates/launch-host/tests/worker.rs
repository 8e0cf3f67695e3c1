//! A worker of a kind of device that is made for this: launches that run, are refused, end their process, and never end.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tensortap_launch_host::{Driver, Failure, LaunchError, Worker, WorkerOptions, become_worker_if_asked};

/// What a launch does with each byte of its contents.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Does {
    Adds(u8),
    Refuses,
    Crashes,
    Aborts,
    Exits,
    Spins,
}

/// The device. Its process says how many launches it has run.
struct Made {
    launches: u32,
}

impl Driver for Made {
    const NAME: &'static str = "a made device";
    const WORKER_VARIABLE: &'static str = "TENSORTAP_MADE_WORKER";
    const INJECTING_VARIABLE: &'static str = "TENSORTAP_MADE_INJECTION";
    type Device = String;
    type Launch = Does;
    type Ran = u32;

    fn prepare(command: &mut std::process::Command) {
        command.env("TENSORTAP_MADE_DEVICE", "prepared");
    }

    fn open() -> Result<Made, String> {
        Ok(Made { launches: 0 })
    }

    fn devices(&self) -> Vec<String> {
        let of = |name: &str| std::env::var(name).unwrap_or_else(|_| "nothing".into());
        vec![of("TENSORTAP_MADE_DEVICE"), of(Self::INJECTING_VARIABLE), of("TENSORTAP_SOCKET")]
    }

    fn launch(
        &mut self,
        launch: &Does,
        image: Vec<u8>,
        contents: &mut [Vec<u8>],
        built: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<u32, Failure> {
        if image != b"image" {
            return Err("it is no image".into());
        }
        built()?;
        self.launches += 1;
        match launch {
            Does::Adds(number) => {
                contents.iter_mut().flatten().for_each(|byte| *byte = byte.wrapping_add(*number));
                Ok(self.launches)
            }
            Does::Refuses => Err("it is refused".into()),
            Does::Crashes => Err(Failure::Crashed("its context is gone".into())),
            Does::Aborts => std::process::abort(),
            Does::Exits => std::process::exit(7),
            Does::Spins => loop {
                std::thread::park();
            },
        }
    }
}

fn main() {
    become_worker_if_asked::<Made>();
    let variables = [Made::INJECTING_VARIABLE, "TENSORTAP_SOCKET"];
    if variables.iter().any(|name| std::env::var_os(name).is_none()) {
        // Once more, as from a program that is recorded.
        let again = std::env::current_exe().unwrap();
        let status = std::process::Command::new(again).envs(variables.map(|name| (name, "set"))).status();
        assert!(status.unwrap().success());
        return;
    }
    let options = WorkerOptions { executable: None, launch_limit: Some(Duration::from_millis(300)) };
    let mut worker: Worker<Made> = Worker::start(options).unwrap();
    // What it was started with, and nothing by which it would be recorded.
    assert_eq!(worker.devices(), ["prepared", "nothing", "nothing"]);
    let contents = [vec![1, 2, 255], Vec::new(), vec![9]];
    let mut launch = |does: Does, image: &[u8]| worker.launch(does, image, &contents);
    let added = |by: u8| -> Vec<Vec<u8>> {
        contents.iter().map(|bytes| bytes.iter().map(|byte| byte.wrapping_add(by)).collect()).collect()
    };
    assert_eq!(launch(Does::Adds(3), b"image"), Ok((added(3), 1)));
    assert_eq!(launch(Does::Adds(1), b"other"), Err(LaunchError::Refused("it is no image".into())));
    assert_eq!(launch(Does::Refuses, b"image"), Err(LaunchError::Refused("it is refused".into())));
    assert_eq!(launch(Does::Adds(4), b"image"), Ok((added(4), 3)), "the same process goes on");
    for (does, why) in [
        (Does::Crashes, "its context is gone"),
        (Does::Aborts, "SIGABRT"),
        (Does::Exits, "its process ended, with code 7"),
        (Does::Spins, "it did not end within 0.3 s"),
    ] {
        match launch(does, b"image") {
            Err(LaunchError::Died(said)) => assert!(said.contains(why), "{does:?}: {said}"),
            other => panic!("{does:?}: {other:?}"),
        }
        assert_eq!(launch(Does::Adds(5), b"image"), Ok((added(5), 1)), "another process, behind {does:?}");
    }
    println!("launches run in a worker, and whatever ends one is told");
}
