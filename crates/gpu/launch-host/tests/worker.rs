//! Tests a worker with a fake device: launches that complete, are refused, crash the process, or never end.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tensortap_launch_host::{Driver, Failure, LaunchError, Worker, WorkerOptions, become_worker_if_asked};

/// What a launch does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Behavior {
    Adds(u8),
    Refuses,
    Crashes,
    Aborts,
    Exits,
    Spins,
}

/// A fake device. Each launch reports how many its process has run.
struct FakeDevice {
    launches: u32,
}

impl Driver for FakeDevice {
    const NAME: &'static str = "a made device";
    const WORKER_VARIABLE: &'static str = "TENSORTAP_MADE_WORKER";
    const INJECTING_VARIABLE: &'static str = "TENSORTAP_MADE_INJECTION";
    type Device = String;
    type Launch = Behavior;
    type Outcome = u32;

    fn prepare(command: &mut std::process::Command) {
        command.env("TENSORTAP_MADE_DEVICE", "prepared");
    }

    fn open() -> Result<FakeDevice, String> {
        Ok(FakeDevice { launches: 0 })
    }

    fn devices(&self) -> Vec<String> {
        let of = |name: &str| std::env::var(name).unwrap_or_else(|_| "nothing".into());
        vec![of("TENSORTAP_MADE_DEVICE"), of(Self::INJECTING_VARIABLE), of("TENSORTAP_SOCKET")]
    }

    fn launch(
        &mut self,
        launch: &Behavior,
        image: Vec<u8>,
        contents: &mut [Vec<u8>],
        built: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<u32, Failure> {
        if image != b"image" {
            return Err("it is not an image".into());
        }
        built()?;
        self.launches += 1;
        match launch {
            Behavior::Adds(number) => {
                contents.iter_mut().flatten().for_each(|byte| *byte = byte.wrapping_add(*number));
                Ok(self.launches)
            }
            Behavior::Refuses => Err("it is refused".into()),
            Behavior::Crashes => Err(Failure::Crashed("its context is gone".into())),
            Behavior::Aborts => std::process::abort(),
            Behavior::Exits => std::process::exit(7),
            Behavior::Spins => loop {
                std::thread::park();
            },
        }
    }
}

fn main() {
    become_worker_if_asked::<FakeDevice>();
    let variables = [FakeDevice::INJECTING_VARIABLE, "TENSORTAP_SOCKET"];
    if variables.iter().any(|name| std::env::var_os(name).is_none()) {
        // Start again with the environment of a recorded program.
        let again = std::env::current_exe().unwrap();
        let status = std::process::Command::new(again).envs(variables.map(|name| (name, "set"))).status();
        assert!(status.unwrap().success());
        return;
    }
    let options = WorkerOptions { executable: None, launch_limit: Some(Duration::from_millis(300)) };
    let mut worker: Worker<FakeDevice> = Worker::start(options).unwrap();
    // The worker has its prepared environment, but no variable that would record it.
    assert_eq!(worker.devices(), ["prepared", "nothing", "nothing"]);
    let contents = [vec![1, 2, 255], Vec::new(), vec![9]];
    let mut launch = |does: Behavior, image: &[u8]| worker.launch(does, image, &contents);
    let added = |by: u8| -> Vec<Vec<u8>> {
        contents.iter().map(|bytes| bytes.iter().map(|byte| byte.wrapping_add(by)).collect()).collect()
    };
    assert_eq!(launch(Behavior::Adds(3), b"image"), Ok((added(3), 1)));
    assert_eq!(launch(Behavior::Adds(1), b"other"), Err(LaunchError::Refused("it is not an image".into())));
    assert_eq!(launch(Behavior::Refuses, b"image"), Err(LaunchError::Refused("it is refused".into())));
    assert_eq!(launch(Behavior::Adds(4), b"image"), Ok((added(4), 3)), "in the same process");
    for (does, why) in [
        (Behavior::Crashes, "its context is gone"),
        (Behavior::Aborts, "SIGABRT"),
        (Behavior::Exits, "its process exited with code 7"),
        (Behavior::Spins, "it did not complete within 0.3 s"),
    ] {
        match launch(does, b"image") {
            Err(LaunchError::Died(said)) => assert!(said.contains(why), "{does:?}: {said}"),
            other => panic!("{does:?}: {other:?}"),
        }
        assert_eq!(launch(Behavior::Adds(5), b"image"), Ok((added(5), 1)), "in a new process after {does:?}");
    }
    println!("a worker runs launches and reports how it ended");
}
