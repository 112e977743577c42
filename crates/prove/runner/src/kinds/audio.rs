//! `audio`: PipeWire with its session manager, a sink that drops its input, and a player. The task counts
//! xruns, as PipeWire's own drivers do (`ERR` of `pw-top`): an xrun is a node that had not finished its
//! period when the next one began.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spry_scenario::kinds::{Audio, Threads};
use spry_scenario::metrics::Metrics;

use crate::RunError;
use crate::stage::Stage;
use crate::x11::child::Program;
use crate::x11::tree;

/// The name of the sink.
const SINK: &str = "spry-sink";
/// The time limit for PipeWire's socket, for its graph and for its threads' reservations, and the interval
/// between two checks.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// How much longer than the run the sound is, s: it also covers the time before and after the run.
const SPARE_S: u64 = 120;
/// The bytes of a frame: two channels of 16 bits.
const FRAME_BYTES: u64 = 4;

/// Plays a graph: starts it before the run begins, and reads its counts before and after the run.
pub(super) fn play(audio: Audio, stage: &Stage) -> Result<Metrics, RunError> {
    let failed = |error: io::Error| RunError::Failed(format!("task {}: {error}", stage.task_name()));
    let home = stage.scratch().join(format!("{}-{}", stage.task_name(), stage.instance()));
    prepare(audio, stage, &home).map_err(failed)?;
    let mut graph = started(audio, stage, &home)?;
    let before = counted(stage, &home).map_err(failed)?;
    let start = stage.start_line()?;
    let cpu_before_ns = cpu_ns(&graph);
    stage.sleep_through(start.measure_to_ns);
    let cpu_ns = cpu_ns(&graph).saturating_sub(cpu_before_ns);
    let run_ns = stage.now_ns().saturating_sub(start.t0_ns).max(1);
    for program in &mut graph {
        program.check()?;
    }
    let after = counted(stage, &home).map_err(failed)?;
    // A program ends before the programs that it uses.
    graph.iter_mut().rev().for_each(Program::end);
    let mut metrics = Metrics::new();
    metrics.count("xruns", after.xruns.saturating_sub(before.xruns));
    metrics.count("periods_due", run_ns / audio.period_ns());
    metrics.ratio("cpu_share", cpu_ns as f64 / run_ns as f64);
    Ok(metrics)
}

/// Makes the home of the programs, with their settings and the sound that is played.
fn prepare(audio: Audio, stage: &Stage, home: &Path) -> io::Result<()> {
    stage.make_private_directory(home)?;
    for (directory, text) in
        [("pipewire.conf.d", server_settings(audio)), ("client.conf.d", settings(audio, ""))]
    {
        let directory = home.join(".config/pipewire").join(directory);
        stage.make_directories(&directory)?;
        stage.write_file(&directory.join("spry.conf"), text.as_bytes())?;
    }
    let seconds = stage.length_ns() / 1_000_000_000 + SPARE_S;
    let bytes = seconds * audio.rate * FRAME_BYTES;
    let sound = sound(home);
    stage.write_file(&sound, &wave_head(audio.rate as u32, u32::try_from(bytes).unwrap_or(u32::MAX - 64)))?;
    // The rest of the file is a hole, which reads as silence. Silence takes as much work as any sound.
    stage.open_file(&sound, bytes).map(drop)
}

fn sound(home: &Path) -> PathBuf {
    home.join("silence.wav")
}

/// The settings of the graph's programs: no message bus, and real-time priorities or none. PipeWire would let
/// a second section of the same name replace the first.
fn settings(audio: Audio, more: &str) -> String {
    let real_time = audio.threads == Threads::RealTime;
    format!("context.properties = {{ support.dbus = false module.rt = {real_time} {more} }}\n")
}

fn server_settings(audio: Audio) -> String {
    let Audio { quantum, rate, .. } = audio;
    // The modules that are switched off here would look for the message bus.
    let more = format!("module.portal = false module.jackdbus-detect = false default.clock.rate = {rate}");
    let mut text = settings(audio, &more);
    _ = writeln!(
        text,
        "context.objects = [ {{ factory = adapter args = {{ factory.name = support.null-audio-sink \
         node.name = {SINK} media.class = Audio/Sink object.linger = true audio.position = [ FL FR ] \
         priority.session = 20000 node.force-quantum = {quantum} }} }} ]"
    );
    text
}

/// The header of a WAV file with two channels of 16 bits.
fn wave_head(rate: u32, bytes: u32) -> Vec<u8> {
    let mut head = b"RIFF".to_vec();
    head.extend(bytes.saturating_add(36).to_le_bytes());
    head.extend(b"WAVEfmt \x10\0\0\0\x01\0\x02\0");
    head.extend(rate.to_le_bytes());
    head.extend((rate * FRAME_BYTES as u32).to_le_bytes());
    head.extend(b"\x04\0\x10\0data");
    head.extend(bytes.to_le_bytes());
    head
}

/// Starts the programs, and waits until the graph runs and its threads have reservations, if needed.
fn started(audio: Audio, stage: &Stage, home: &Path) -> Result<Vec<Program>, RunError> {
    let mut graph = vec![stage.start_service(&["pipewire"], home, "pipewire.log")?];
    until(stage, &mut graph, "its socket", |_| home.join("pipewire-0").exists())?;
    graph.push(stage.start_service(&["wireplumber"], home, "wireplumber.log")?);
    let (file, latency) = (sound(home), audio.quantum.to_string());
    let player = ["pw-cat", "-p", "--latency", &latency, "--target", SINK, &file.to_string_lossy()];
    // The session manager connects the player with the sink, and needs a moment to start.
    stage.pause(Duration::from_secs(1));
    graph.push(stage.start_service(&player, home, "player.log")?);
    until(stage, &mut graph, "its graph", |_| counted(stage, home).is_ok_and(|counts| counts.running >= 2))?;
    if audio.threads == Threads::Reserved {
        let keeper = ["spry", "reserve", "--audio", "--json"];
        graph.push(stage.start_service(&keeper, home, "reserve.log")?);
        until(stage, &mut graph, "reservations of its threads", |graph| {
            let log = graph.last().and_then(|keeper| stage.text_of(keeper.log()).ok());
            log.is_some_and(|log| log.contains(r#""event":"current""#))
        })?;
    }
    Ok(graph)
}

/// Waits until a condition is true, and fails if one of the programs ends.
fn until(
    stage: &Stage,
    graph: &mut [Program],
    what: &str,
    is_there: impl Fn(&[Program]) -> bool,
) -> Result<(), RunError> {
    let end_ns = stage.after(PATIENCE);
    while !is_there(graph) {
        for program in graph.iter_mut() {
            program.check()?;
        }
        if stage.now_ns() > end_ns {
            let said = graph.last().map(Program::said).unwrap_or_default();
            return Err(RunError::Failed(format!("PipeWire was not ready: {what}; it said: {said}")));
        }
        stage.pause(LOOK);
    }
    Ok(())
}

/// The counts that `pw-top` prints for the running nodes, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    running: u64,
    xruns: u64,
}

fn counted(stage: &Stage, home: &Path) -> io::Result<Counts> {
    let text = stage.answer_of(&["pw-top", "-b", "-n", "2"], home)?;
    counts(&text).ok_or_else(|| io::Error::other("pw-top printed no table"))
}

/// The counts of the last table. A node's line begins with its state, its number, its quantum and its rate;
/// the ninth word is the number of its xruns.
fn counts(text: &str) -> Option<Counts> {
    let is_head = |line: &&str| line.starts_with("S ") && line.contains("QUANT") && line.contains("ERR");
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().rposition(is_head)?;
    let mut counts = Counts::default();
    for line in &lines[head + 1..] {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() != Some(&"R") {
            continue;
        }
        counts.running += 1;
        counts.xruns += words.get(8)?.parse::<u64>().ok()?;
    }
    Some(counts)
}

/// The CPU time of the programs so far, ns.
fn cpu_ns(graph: &[Program]) -> u64 {
    graph.iter().flat_map(|program| tree::cpu_ns(program.tgid()).into_values()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xruns_are_those_of_the_nodes_that_run_in_the_last_table() {
        let text = "\
S   ID  QUANT   RATE    WAIT    BUSY   W/Q   B/Q  ERR FORMAT           NAME
C   29      0      0    ---     ---   ---   ---     9                  spry-sink
S   ID  QUANT   RATE    WAIT    BUSY   W/Q   B/Q  ERR FORMAT           NAME
S   28      0      0    ---     ---   ---   ---     4                  Freewheel-Driver
R   29    128  48000   7.5us   2.5us  0.00  0.00  171     F32P 2 48000 spry-sink
R   45    128  48000  24.0us   2.9us  0.01  0.00  348    S16LE 2 48000  + pw-cat
";
        assert_eq!(counts(text), Some(Counts { running: 2, xruns: 519 }));
        assert_eq!(counts("S ID QUANT ERR\nR 1 128\n"), None);
        assert_eq!(counts("pw-top: can't connect\n"), None);
    }

    #[test]
    fn each_file_of_settings_has_each_section_once() {
        for threads in [Threads::Ordinary, Threads::RealTime, Threads::Reserved] {
            let text = server_settings(Audio { quantum: 128, rate: 48_000, threads });
            assert_eq!(text.matches("context.properties").count(), 1, "{text}");
            assert!(text.contains(&format!("module.rt = {}", threads == Threads::RealTime)), "{text}");
        }
    }

    #[test]
    fn a_file_of_sound_has_the_length_that_its_head_says() {
        let head = wave_head(48_000, 192_000);
        assert_eq!(head.len(), 44);
        assert_eq!(u32::from_le_bytes(head[40..].try_into().unwrap()), 192_000);
        assert_eq!(u32::from_le_bytes(head[28..32].try_into().unwrap()), 192_000);
    }
}
