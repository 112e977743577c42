//! Prints each second the processes that draw and that receive input: `watch [--display :N]
//! [--trust-synthetic] [--seconds S]`.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spry_display::{DeviceOptions, DeviceStatus, Devices, Synthetic};

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = DeviceOptions::default();
    let mut seconds = u64::MAX;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--display" => options.display = arguments.next(),
            "--trust-synthetic" => options.synthetic = Synthetic::Trusted,
            "--seconds" => seconds = arguments.next().ok_or("--seconds needs a number")?.parse()?,
            other => return Err(format!("unknown argument {other:?}").into()),
        }
    }
    let news = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&news);
    let notify = move || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let mut devices = Devices::open(options, Arc::new(notify))?;
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        let seen = devices.take();
        let mut out = io::stdout().lock();
        writeln!(out, "{} news, cpu {:.2} ms", news.swap(0, Ordering::Relaxed), cpu_ms())?;
        for device in devices.status() {
            show(&mut out, &device)?;
        }
        let samples = seen.samples.iter();
        let list: Vec<String> = samples
            .map(|sample| {
                format!("{} {}+{}ppm", sample.tgid.0, sample.changes.input, sample.changes.output_ppm)
            })
            .collect();
        writeln!(out, "  taken: {}", list.join(", "))?;
    }
    Ok(())
}

fn show(out: &mut impl Write, device: &DeviceStatus) -> io::Result<()> {
    let server = device.server_tgid.map_or_else(String::new, |tgid| format!(", server {tgid}"));
    writeln!(out, "  {} {:?}: {:?}{server}", device.name, device.kind, device.state)?;
    for warning in &device.warnings {
        writeln!(out, "    {warning}")?;
    }
    for client in &device.clients {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", client.tgid.0)).unwrap_or_default();
        writeln!(
            out,
            "    {:>7} {:<15} {:5.1} frames/s {:6.1} input/s {:8.4} screens/s",
            client.tgid.0,
            name.trim_end(),
            client.frames_per_s,
            client.input_per_s,
            client.screens_per_s
        )?;
    }
    Ok(())
}

/// The CPU time of this process so far, ms.
fn cpu_ms() -> f64 {
    spry_sys::clock::own_cpu_ns() as f64 / 1e6
}
