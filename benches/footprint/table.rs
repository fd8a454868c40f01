//! The figures as Markdown.

use std::fmt::Write;

use crate::figures::{Memory, Of, Phase, Report, Size, Steady};

/// All that was measured.
pub fn text(report: &Report) -> String {
    let mut text = format!("{}\n", report.machine);
    for sizes in report
        .sizes
        .chunk_by(|one, other| one.of.program == other.of.program)
    {
        text += &memory(sizes);
        text += &cpu(sizes);
        text += &scrapes(sizes);
    }
    text.extend(report.steady.iter().map(steady));
    text
}

fn memory(sizes: &[Size]) -> String {
    let rates = phases(sizes).map(|phase| match phase.rate {
        0 => "idle".to_owned(),
        rate => format!("{rate}/s"),
    });
    let columns = ["after start".to_owned()].into_iter().chain(rates);
    let cgroup =
        ["first start", "rewrite", "restart"].map(|name| format!("cgroup (programs), {name}"));
    let columns = columns.chain(["peak".to_owned()]).chain(cgroup);
    let heads: Vec<String> = columns.collect();
    let rows = sizes.iter().map(|size| {
        let phases = size.phases.iter().map(|phase| phase.rss);
        let peak = size
            .phases
            .last()
            .map_or(size.peak_rss, |last| last.peak_rss);
        let cells = [size.rss].into_iter().chain(phases).chain([peak]);
        let cells = cells.map(|value| format!("{value:.1} MiB"));
        let cgroup = [size.first_start, size.rewrite, size.restart];
        let cgroup = cgroup.map(|peak| format!("{:.1} ({:.1}) MiB", peak.all, peak.programs));
        (size.of.services, cells.chain(cgroup).collect())
    });
    table(&title(&sizes[0].of, "memory (RSS)"), &heads, rows)
}

fn cpu(sizes: &[Size]) -> String {
    let rates = phases(sizes).map(|phase| match phase.rate {
        0 => "idle, a minute".to_owned(),
        rate => format!("{rate}/s, a minute"),
    });
    let heads: Vec<String> = ["start".to_owned()].into_iter().chain(rates).collect();
    let rows = sizes.iter().map(|size| {
        let phases = size.phases.iter().map(|phase| phase.cpu);
        let cells = [size.start].into_iter().chain(phases);
        let cells = cells.map(|cpu| format!("{:.2} + {:.2} s", cpu.own, cpu.children));
        (size.of.services, cells.collect())
    });
    table(&title(&sizes[0].of, "CPU, own + children's"), &heads, rows)
}

fn scrapes(sizes: &[Size]) -> String {
    let heads = ["bytes", "series", "CPU"].map(str::to_owned);
    let rows = sizes.iter().map(|size| {
        let scrape = &size.scrape;
        let cpu = format!("{:.2} ms", scrape.cpu * 1e3);
        let cells = vec![scrape.bytes.to_string(), scrape.series.to_string(), cpu];
        (size.of.services, cells)
    });
    table(&title(&sizes[0].of, "`GET /metrics`"), &heads, rows)
}

fn phases(sizes: &[Size]) -> impl Iterator<Item = &Phase> {
    sizes.first().into_iter().flat_map(|size| &size.phases)
}

/// Memory at some moments, and how it grows once the first minutes are over.
fn steady(steady: &Steady) -> String {
    let (of, samples) = (&steady.of, &steady.samples);
    let what = format!("memory (RSS) under {} mixed changes a second", steady.rate);
    let heads = ["changes", "syncs", "RSS", "peak"].map(str::to_owned);
    let shown = samples.len().div_ceil(16).max(1);
    let rows = samples.iter().step_by(shown).map(|sample| {
        let (rss, peak) = (sample.rss, sample.peak_rss);
        let memory = [format!("{rss:.1} MiB"), format!("{peak:.1} MiB")];
        let counts = [sample.changes.to_string(), sample.syncs.to_string()];
        let cells = counts.into_iter().chain(memory).collect();
        (format!("{:.0} s", sample.seconds), cells)
    });
    let title = format!("{}, {} Services", title(of, &what), of.services);
    let mut text = rows_under("time", &title, &heads, rows);
    if let Some(growth) = growth(&samples[samples.len() / 3..]) {
        writeln!(
            text,
            "\nGrowth in the last two thirds: {growth:+.2} MiB an hour."
        )
        .unwrap();
    }
    text
}

/// The slope of the line that fits best, in MiB an hour.
fn growth(samples: &[Memory]) -> Option<f64> {
    let count = samples.len() as f64;
    let mean = |of: fn(&Memory) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (time, rss) = (mean(|sample| sample.seconds), mean(|sample| sample.rss));
    let away = samples
        .iter()
        .map(|sample| (sample.seconds - time, sample.rss - rss));
    let (along, square) = away.fold((0.0, 0.0), |(along, square), (seconds, rss)| {
        (along + seconds * rss, square + seconds * seconds)
    });
    (square > 0.0).then(|| along / square * 3600.0)
}

fn title(of: &Of, what: &str) -> String {
    let (program, backend, endpoints) = (of.program.name(), of.backend.name(), of.endpoints);
    format!("{program} on {backend}, {what}; {endpoints} endpoints each")
}

fn table(
    title: &str,
    heads: &[String],
    rows: impl Iterator<Item = (usize, Vec<String>)>,
) -> String {
    let rows = rows.map(|(services, cells)| (services.to_string(), cells));
    rows_under("Services", title, heads, rows)
}

fn rows_under(
    corner: &str,
    title: &str,
    heads: &[String],
    rows: impl Iterator<Item = (String, Vec<String>)>,
) -> String {
    let rule = "---:|".repeat(heads.len() + 1);
    let mut text = format!(
        "\n{title}\n\n| {corner} | {} |\n|{rule}\n",
        heads.join(" | ")
    );
    for (head, cells) in rows {
        writeln!(text, "| {head} | {} |", cells.join(" | ")).unwrap();
    }
    text
}
