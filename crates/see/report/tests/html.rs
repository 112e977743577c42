//! The HTML report of findings made by hand: as text, and in a headless browser.

#[path = "common/sample.rs"]
mod sample;

use std::path::{Path, PathBuf};
use std::process::Command;

use spry_analysis::findings::Findings;
use spry_report::html;

fn page(findings: &Findings) -> String {
    let mut out = Vec::new();
    html::write(findings, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the document after its scripts ran, and their messages on the console.
fn browse(name: &str, page: &str) -> (String, String) {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).unwrap();
    let file = place.join("report.html");
    std::fs::write(&file, page).unwrap();
    let output = Command::new(browser())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args([
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            "--window-size=1280,1000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", place.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("the browser starts");
    let console = String::from_utf8_lossy(&output.stderr);
    let console = console.lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}

#[test]
fn a_time_line_of_any_length_is_drawn() {
    let mut findings = sample::small(sample::all_groups());
    let drawing = findings.drawing.as_mut().unwrap();
    drawing.column_ns = 1 << 63;
    let column = &mut drawing.cpus[0][0];
    (column.busy_ns, column.unknown_ns) = (1 << 62, 1 << 62);
    column.top = [(0, 1 << 62), (1, 0), (2, 0)];
    assert!(page(&findings).contains(",500,-2,500]"), "half of the column is the task's");
}

fn browser() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|place| ["chromium", "chromium-browser", "google-chrome"].map(|name| place.join(name)))
        .find(|program| Path::is_file(program))
        .expect("this test needs a browser: apt install chromium")
}

/// The number of items that a chart reports as drawn.
fn drawn(dom: &str, id: &str) -> usize {
    let (_, rest) = dom.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no chart {id}"));
    let tag = rest.split_once('>').unwrap().0;
    let (_, number) = tag.split_once("data-drawn=\"").unwrap_or_else(|| panic!("{id} was not drawn"));
    number.split_once('"').unwrap().0.parse().unwrap()
}

#[test]
fn every_chart_is_drawn_in_a_browser_without_complaint() {
    for (name, findings) in [("small", sample::small(sample::all_groups())), ("large", sample::large(2_000))]
    {
        let (dom, console) = browse(name, &page(&findings));
        assert_eq!(console, "", "{name}");
        assert!(dom.contains("data-ready=\"yes\""), "{name}: the scripts did not get to their end");
        for chart in ["timeline", "cdf-quanta", "cdf-dispatch"] {
            assert!(drawn(&dom, chart) > 0, "{name}: {chart} is empty");
        }
        assert!(dom.contains("class=\"disk\""), "{name}: no billing steps");
        assert!(dom.contains("id=\"graph\"") && dom.contains("class=\"edge\""), "{name}: no graph");
    }
}

#[test]
fn tables_sort_tasks_can_be_picked_and_the_time_line_zooms() {
    const VISIT: &str = "<script>
        const said = [], text = (query) => document.querySelector(query).textContent;
        const head = document.querySelector('#tasks th:nth-child(3)');
        head.click();
        said.push(text('#tasks tbody tr td'));
        head.click();
        said.push(text('#tasks tbody tr td'));
        const pick = document.getElementById('pick');
        pick.value = '4';
        pick.dispatchEvent(new Event('change'));
        said.push(document.getElementById('cdf-quanta').dataset.drawn);
        said.push([...document.querySelectorAll('#cdf-quanta text')].map((label) \
        => label.textContent).join(' '));
        document.querySelector('[data-zoom=all]').click();
        said.push(text('#shown'));
        document.querySelector('[data-delay=\"1\"]').click();
        said.push(text('#shown'));
        document.body.dataset.said = said.join('|');
    </script></body>";
    let page = page(&sample::small(sample::all_groups())).replace("</body>", VISIT);
    let (dom, console) = browse("visit", &page);
    assert_eq!(console, "");
    let (_, said) = dom.split_once("data-said=\"").expect("the visit ends");
    let said = said.split_once('"').unwrap().0;
    let axes = "10 us 100 us 1 ms 10 ms 100 ms 0 % 20 % 40 % 60 % 80 % 100 %";
    assert_eq!(said, format!("cc1 200|spry 400|5|{axes}|1 s from 0.000000 s on|4 ms from 0.698999 s on"));
}

#[test]
fn a_report_of_few_groups_or_nothing_opens_without_complaint() {
    for (name, findings) in [("few", sample::small(sample::few_groups())), ("empty", Findings::default())] {
        let (dom, console) = browse(name, &page(&findings));
        assert_eq!(console, "", "{name}");
        assert!(dom.contains("data-ready=\"yes\""), "{name}: the scripts did not get to their end");
    }
}

#[test]
fn a_hostile_name_stays_a_name() {
    let page = page(&sample::small(sample::all_groups()));
    assert_eq!(page.matches("</script>").count(), 2, "only the report's own scripts end");
    assert!(!page.contains("</script><b>"));
    assert!(page.contains("&lt;/script&gt;&lt;b&gt;&amp;&quot;&#39;"));
}

#[test]
fn the_tables_need_no_script() {
    let page = page(&sample::small(sample::all_groups()));
    let (tables, _) = page.split_once("<script").unwrap();
    for text in [
        "Longest wait: editor 100",
        "cc1 200 ran 28.1 ms",
        "15 on CPU 1",
        "0.40 % of a CPU",
        "<svg id=\"graph\"",
    ] {
        assert!(tables.contains(text), "{text}");
    }
}

#[test]
fn the_page_refers_to_nothing_outside() {
    let page = page(&sample::large(100));
    for outside in ["src=", "href=", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let own = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!own.contains("http://") && !own.contains("https://"));
}

#[test]
fn thousands_of_tasks_make_a_page_of_bounded_size() {
    let (some, many) = (page(&sample::large(1_000)).len(), page(&sample::large(8_000)).len());
    assert!(many < some + some / 10, "{some} bytes grow to {many}");
    assert!(many < 3 << 20, "{many} bytes");
}
