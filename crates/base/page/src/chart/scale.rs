//! The values of an axis, where they lie on it, and which of them are labelled.

use serde::Serialize;

/// How a value is turned into a place on the axis.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Equal differences of values have equal distances.
    Linear,
    /// Equal ratios of values have equal distances: the places are those of the logarithms.
    Logarithmic,
}

/// The values of an axis.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Scale {
    /// How a value is turned into a place on the axis.
    #[serde(rename = "scale")]
    pub kind: Kind,
    /// The first value of the axis.
    pub low: f64,
    /// The last value of the axis.
    pub high: f64,
}

impl Scale {
    /// A linear scale from 0, with at most five steps of 1, 2, 2.5 or 5 times a power of ten. Returns the
    /// scale and its ticks. The last tick is the first one at or above `high`.
    pub fn linear(high: f64) -> (Scale, Vec<f64>) {
        let rough = (high / 5.0).max(1e-9);
        let magnitude = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
        let step = steps.into_iter().map(|n| n * magnitude).find(|&step| step >= rough * 0.999);
        let step = step.unwrap_or(rough);
        let count = (high / step - 1e-9).ceil().max(1.0) as u32;
        let ticks = (0..=count).map(|n| f64::from(n) * step).collect();
        (Scale { kind: Kind::Linear, low: 0.0, high: f64::from(count) * step }, ticks)
    }

    /// A logarithmic scale over whole powers of ten, which contains all given values above 0. Returns the
    /// scale and its ticks. The scale has at least one decade.
    pub fn decades(values: impl IntoIterator<Item = f64>) -> (Scale, Vec<f64>) {
        let (mut low, mut high) = (f64::INFINITY, 0f64);
        for value in values.into_iter().filter(|&value| value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let last = last.max(first + 1);
        let ticks = (first..=last).map(|power| 10f64.powi(power)).collect();
        (Scale { kind: Kind::Logarithmic, low: 10f64.powi(first), high: 10f64.powi(last) }, ticks)
    }

    /// The place of a value on the axis, 0 to 1; a value beyond an end of the axis is at that end.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Logarithmic => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
        };
        place.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_end_at_a_round_value() {
        assert_eq!(Scale::linear(100.0).1, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let (scale, ticks) = Scale::linear(280.0);
        assert_eq!((scale.high, ticks), (300.0, vec![0.0, 100.0, 200.0, 300.0]));
        assert_eq!(Scale::linear(0.0).1.len(), 2);
        assert_eq!(
            [-1.0, 0.0, 75.0, 300.0, 400.0].map(|value| scale.place(value)),
            [0.0, 0.0, 0.25, 1.0, 1.0]
        );
    }

    #[test]
    fn logarithmic_scales_are_whole_decades() {
        let (scale, ticks) = Scale::decades([0.0, 30.0, 2_000.0]);
        assert_eq!(ticks, [10.0, 100.0, 1_000.0, 10_000.0]);
        assert_eq!([0.0, 10.0, 10_000.0, 1e9].map(|value| scale.place(value)), [0.0, 0.0, 1.0, 1.0]);
        assert_eq!(Scale::decades([]).1, [1.0, 10.0]);
        assert_eq!(Scale::decades([100.0, 100.0]).1, [100.0, 1_000.0]);
    }
}
