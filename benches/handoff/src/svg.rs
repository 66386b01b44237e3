//! A line chart as SVG: axes, a grid, lines and their names.

use std::error::Error;
use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) colour: RGBColor,
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether each point gets a mark.
    pub(crate) marks: bool,
}

pub(crate) struct Axis {
    label: &'static str,
    /// `None` for a logarithmic axis that covers the values of the chart.
    linear: Option<(f64, f64)>,
}

impl Axis {
    pub(crate) fn linear(label: &'static str, from: f64, to: f64) -> Self {
        Self { label, linear: Some((from, to)) }
    }

    pub(crate) fn logarithmic(label: &'static str) -> Self {
        Self { label, linear: None }
    }

    /// Returns the scale of the axis for the values of a chart.
    fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        if let Some((from, to)) = self.linear {
            let ticks = (0..=5).map(|tick| from + (to - from) * f64::from(tick) / 5.0);
            return Scale { range: from..to, is_linear: true, ticks: ticks.collect() };
        }
        let values = values.filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = values
            .map(|value| (value, value))
            .reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
            .unwrap_or((1.0, 1.0));
        let range = low / 1.15..high * 1.15;
        let decades =
            (-3..9).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10.0_f64.powi(power)));
        let ticks = decades.filter(|tick| range.contains(tick)).collect();
        Scale { range, is_linear: false, ticks }
    }
}

/// Range of an axis, with the positions of its grid lines.
struct Scale {
    range: Range<f64>,
    is_linear: bool,
    ticks: Vec<f64>,
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let Range { start, end } = self.range;
        let value = value.clamp(start, end);
        if self.is_linear {
            return RangedCoordf64::from(start..end).map(&value, limit);
        }
        RangedCoordf64::from(start.ln()..end.ln()).map(&value.ln(), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        let plain = value.to_string();
        if plain.contains('.') {
            return plain;
        }
        let groups: Vec<&[u8]> = plain.as_bytes().rchunks(3).rev().collect();
        String::from_utf8_lossy(&groups.join(&b","[..])).into_owned()
    }
}

impl Chart {
    pub(crate) fn to_svg(&self) -> Result<String, Box<dyn Error>> {
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (860, 440)).into_drawing_area();
        root.fill(&WHITE)?;
        let (plot, names) = root.split_horizontally(690);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = self.x.scale(points().map(|point| point.0));
        let y = self.y.scale(points().map(|point| point.1));
        let mut chart = ChartBuilder::on(&plot)
            .caption(&self.title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(45)
            .y_label_area_size(70)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .bold_line_style(RGBColor(0xdd, 0xdd, 0xdd))
            .label_style(("sans-serif", 14))
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .draw()?;
        for (index, line) in (0..).zip(&self.lines) {
            let finite = line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            let size = if line.marks { 4 } else { 0 };
            let style = line.colour.filled().stroke_width(2);
            chart.draw_series(LineSeries::new(finite.copied(), style).point_size(size))?;
            let y = 60 + 22 * index;
            names.draw(&PathElement::new([(5, y), (27, y)], line.colour.stroke_width(3)))?;
            names.draw(&Text::new(line.name.as_str(), (33, y - 7), ("sans-serif", 15)))?;
        }
        root.present()?;
        drop((chart, names, plot, root));
        Ok(svg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_contains_its_lines_names_and_numbers() {
        let line = Line {
            name: "a < b".to_owned(),
            colour: RGBColor(0x12, 0x34, 0x56),
            points: vec![(10.0, 0.0), (100.0, 50.0), (1_000.0, 100.0), (f64::NAN, 1.0)],
            marks: true,
        };
        let chart = Chart {
            title: "title".to_owned(),
            x: Axis::logarithmic("across"),
            y: Axis::linear("up", 0.0, 100.0),
            lines: vec![line],
        };
        let svg = chart.to_svg().unwrap();
        for part in ["a &lt; b", "title", "across", "\nup\n", "\n1,000\n", "\n100\n", "#123456"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        let circle = |attribute| {
            let values = svg.split("<circle ").skip(1).filter_map(move |circle: &str| {
                circle.split_once(attribute)?.1.split('"').next()?.parse::<i32>().ok()
            });
            values.collect::<Vec<_>>()
        };
        for attribute in ["cx=\"", "cy=\""] {
            let places = circle(attribute);
            let [first, second, third] = places[..] else { panic!("{places:?}: {svg}") };
            let is_even = (first + third - 2 * second).abs() <= 2; // pixels
            assert!(is_even && (third - first).abs() > 200, "{places:?}");
        }
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn chart_without_lines_is_complete() {
        let (x, y) = (Axis::logarithmic("x"), Axis::logarithmic("y"));
        let svg = Chart { title: String::new(), x, y, lines: Vec::new() }.to_svg().unwrap();
        assert!(svg.trim_end().ends_with("</svg>") && !svg.contains("NaN"), "{svg}");
    }
}
