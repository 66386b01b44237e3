//! A line chart as SVG: axes, a grid, lines and their names.

use std::fmt::Write;

pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) colour: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether each point gets a mark.
    pub(crate) marks: bool,
}

pub(crate) struct Axis {
    label: &'static str,
    scale: Scale,
}

enum Scale {
    Linear(f64, f64),
    /// A scale that covers the values of the chart.
    Logarithmic,
}

impl Axis {
    pub(crate) fn linear(label: &'static str, from: f64, to: f64) -> Self {
        Self { label, scale: Scale::Linear(from, to) }
    }

    pub(crate) fn logarithmic(label: &'static str) -> Self {
        Self { label, scale: Scale::Logarithmic }
    }

    /// Returns the range of `values`, with the positions of the grid lines.
    fn span(&self, values: impl Iterator<Item = f64>) -> Span {
        match self.scale {
            Scale::Linear(from, to) => {
                let ticks = (0..=5).map(|tick| from + (to - from) * f64::from(tick) / 5.0);
                Span { from, to, log: false, ticks: ticks.collect() }
            }
            Scale::Logarithmic => {
                let (low, high) = values
                    .filter(|value| value.is_finite() && *value > 0.0)
                    .fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(it), high.max(it)));
                if low > high {
                    return Span { from: 1.0, to: 10.0, log: true, ticks: vec![1.0, 10.0] };
                }
                let (from, to) = (low / 1.15, high * 1.15);
                let decades = (-3..9)
                    .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10.0_f64.powi(power)));
                let ticks = decades.filter(|tick| (from..=to).contains(tick)).collect();
                Span { from, to, log: true, ticks }
            }
        }
    }
}

struct Span {
    from: f64,
    to: f64,
    log: bool,
    ticks: Vec<f64>,
}

impl Span {
    /// Returns the position of a value: 0 at the start of the axis, 1 at its end.
    fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        place.clamp(0.0, 1.0)
    }
}

impl Chart {
    pub(crate) fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = self.x.span(points().map(|point| point.0));
        let y = self.y.span(points().map(|point| point.1));
        let mut svg = String::new();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            svg,
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"
font-family="sans-serif" font-size="13" fill="#333">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>
<text x="{LEFT}" y="28" font-size="16" font-weight="bold">{}</text>"##,
            escaped(&self.title)
        );
        self.draw_grid(&mut svg, &x, &y);
        for (index, line) in self.lines.iter().enumerate() {
            line.draw(&mut svg, &x, &y);
            line.draw_name(&mut svg, index);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_grid(&self, svg: &mut String, x: &Span, y: &Span) {
        for tick in &x.ticks {
            let at = LEFT + x.place(*tick) * PLOT_WIDTH;
            let _ = writeln!(
                svg,
                r##"<path d="M{at:.1} {TOP}v{PLOT_HEIGHT}" stroke="#ddd"/>
<text x="{at:.1}" y="{:.1}" text-anchor="middle">{}</text>"##,
                TOP + PLOT_HEIGHT + 18.0,
                number(*tick)
            );
        }
        for tick in &y.ticks {
            let at = TOP + (1.0 - y.place(*tick)) * PLOT_HEIGHT;
            let _ = writeln!(
                svg,
                r##"<path d="M{LEFT} {at:.1}h{PLOT_WIDTH}" stroke="#ddd"/>
<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"##,
                LEFT - 8.0,
                at + 4.0,
                number(*tick)
            );
        }
        let (middle, centre) = (LEFT + PLOT_WIDTH / 2.0, TOP + PLOT_HEIGHT / 2.0);
        let _ = writeln!(
            svg,
            r##"<path d="M{LEFT} {TOP}v{PLOT_HEIGHT}h{PLOT_WIDTH}" fill="none" stroke="#333"/>
<text x="{middle:.1}" y="{:.1}" text-anchor="middle">{}</text>
<text transform="translate(18 {centre:.1}) rotate(-90)" text-anchor="middle">{}</text>"##,
            HEIGHT - 12.0,
            escaped(self.x.label),
            escaped(self.y.label)
        );
    }
}

impl Line {
    fn draw(&self, svg: &mut String, x: &Span, y: &Span) {
        let places: Vec<(f64, f64)> = self
            .points
            .iter()
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .map(|point| {
                let across = LEFT + x.place(point.0) * PLOT_WIDTH;
                (across, TOP + (1.0 - y.place(point.1)) * PLOT_HEIGHT)
            })
            .collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            r#"<polyline points="{}" fill="none" stroke="{}" stroke-width="2" stroke-linejoin="round"/>"#,
            path.join(" "),
            self.colour
        );
        if self.marks {
            for (x, y) in places {
                let _ = writeln!(
                    svg,
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{}"/>"#,
                    self.colour
                );
            }
        }
    }

    fn draw_name(&self, svg: &mut String, index: usize) {
        let (x, y) = (LEFT + PLOT_WIDTH + 16.0, TOP + 10.0 + 22.0 * index as f64);
        let _ = writeln!(
            svg,
            r#"<path d="M{x} {y}h22" stroke="{}" stroke-width="3"/><text x="{}" y="{}">{}</text>"#,
            self.colour,
            x + 28.0,
            y + 4.0,
            escaped(&self.name)
        );
    }
}

fn number(value: f64) -> String {
    let plain = format!("{value}");
    if plain.contains('.') {
        return plain;
    }
    let groups: Vec<&[u8]> = plain.as_bytes().rchunks(3).rev().collect();
    String::from_utf8_lossy(&groups.join(&b","[..])).into_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 48.0;
const PLOT_WIDTH: f64 = 600.0;
const PLOT_HEIGHT: f64 = 320.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_contains_its_lines_names_and_numbers() {
        let line = Line {
            name: "a < b".to_owned(),
            colour: "#123456",
            points: vec![(10.0, 0.0), (1_000.0, 100.0), (f64::NAN, 1.0)],
            marks: true,
        };
        let chart = Chart {
            title: "title".to_owned(),
            x: Axis::logarithmic("across"),
            y: Axis::linear("up", 0.0, 100.0),
            lines: vec![line],
        };
        let svg = chart.to_svg();
        for part in ["a &lt; b", "title", "across", ">up<", ">1,000<", ">100<", "#123456"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn chart_without_lines_is_complete() {
        let (x, y) = (Axis::logarithmic("x"), Axis::logarithmic("y"));
        let svg = Chart { title: String::new(), x, y, lines: Vec::new() }.to_svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
    }
}
