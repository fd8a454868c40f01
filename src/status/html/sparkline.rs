//! Sparkline of the last syncs of a family: a bar for each, as an inline picture in SVG.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::status::document::SyncRecord;
use crate::status::quantities::milliseconds;

/// Width of a bar with its gap, in units of the picture.
const STEP: usize = 3;

/// Minimum number of bars that fit into the picture; fewer are at its right end.
const FEWEST: usize = 60;

/// Height of the longest bar, in units of the picture.
const HEIGHT: f64 = 56.0;

/// Height above the bars, for the marks of full syncs.
const TOP: f64 = 8.0;

/// Returns the picture of the last syncs of a family, the oldest on the left. Full syncs differ
/// from partial ones by a mark, and not by their color alone.
pub(super) fn sparkline(family: &str, syncs: &[SyncRecord]) -> Markup {
    let longest = syncs.iter().map(|sync| sync.took_ms).fold(0.0, f64::max);
    let (mut partial, mut full, mut marks) = (String::new(), String::new(), String::new());
    let mut full_count = 0;
    let width = syncs.len().max(FEWEST) * STEP;
    for (position, sync) in syncs.iter().enumerate() {
        let x = (width + position * STEP).saturating_sub(syncs.len() * STEP);
        let height = (sync.took_ms / longest.max(f64::MIN_POSITIVE) * HEIGHT).max(1.0);
        let bars = if sync.scope == "partial" {
            &mut partial
        } else {
            full_count += 1;
            let top = TOP + HEIGHT - height;
            let _ = write!(marks, "M{x} {:.0}h3l-1.5 4z", top - 6.0);
            &mut full
        };
        // Writing into memory cannot fail.
        let _ = write!(bars, "M{x}.5 64v-{height:.0}");
    }
    let count = match syncs.len() {
        1 => "1 sync".to_owned(),
        count => format!("{count} syncs"),
    };
    let (title, text) = (format!("title-{family}"), format!("text-{family}"));
    html! {
        figure {
            svg viewBox=(format!("0 0 {width} 64")) preserveAspectRatio="none" role="img"
                aria-labelledby=(format!("{title} {text}")) {
                title id=(title) { "Durations of the last " (count) " of " (family) }
                desc id=(text) {
                    "The longest took " (milliseconds(longest)) ", half of them at most "
                    (milliseconds(median(syncs))) "; " (full_count) " were full."
                }
                path class="partial" stroke-width="2" d=(partial) {}
                path class="full" stroke-width="2" d=(full) {}
                path class="marks" d=(marks) {}
            }
            figcaption class="muted" {
                "Last " (count) ": longest " (milliseconds(longest)) ", median "
                (milliseconds(median(syncs))) ", " (full_count) " full (marked with a triangle)"
            }
        }
    }
}

fn median(syncs: &[SyncRecord]) -> f64 {
    let mut durations: Vec<f64> = syncs.iter().map(|sync| sync.took_ms).collect();
    durations.sort_by(f64::total_cmp);
    let middle = durations.len().saturating_sub(1) / 2;
    durations.get(middle).copied().unwrap_or_default()
}
