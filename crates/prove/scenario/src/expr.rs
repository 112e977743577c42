//! Evaluates small arithmetic expressions in numbers and times, such as `1s / 25`, `0.6 * 40ms`, or
//! `$stressers + 1` after the variable's value has replaced its name.

/// A value and its dimension, which is the power of time: 0 for a number, 1 for a time in nanoseconds.
#[derive(Clone, Copy)]
struct Quantity {
    value: f64,
    time: i8,
}

/// Evaluates an expression that must be a plain number.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let found = evaluate(text)?;
    match found.time {
        0 => Ok(found.value),
        1 => Err(format!("\"{text}\" is a time; a plain number is wanted")),
        _ => Err(format!("\"{text}\" is neither a number nor a time")),
    }
}

/// Evaluates an expression that must be a time, in nanoseconds. A time needs a unit (ns, us, ms, s,
/// min), except for 0.
pub(crate) fn duration_ns(text: &str) -> Result<f64, String> {
    let found = evaluate(text)?;
    match found.time {
        1 => Ok(found.value),
        0 if found.value == 0.0 => Ok(0.0),
        0 => Err(format!("\"{text}\" has no unit; write \"{text}ms\", or ns, us, s, min")),
        _ => Err(format!("\"{text}\" is no time: times are multiplied or divided")),
    }
}

fn evaluate(text: &str) -> Result<Quantity, String> {
    let mut reader = Reader { text, rest: text };
    let found = reader.sum()?;
    reader.skip_space();
    if !reader.rest.is_empty() {
        return Err(reader.wrong());
    }
    if !found.value.is_finite() {
        return Err(format!("\"{text}\" has no finite value"));
    }
    Ok(found)
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Reader<'_> {
    fn wrong(&self) -> String {
        let text = self.text;
        if self.rest.is_empty() {
            format!(
                "\"{text}\" breaks off; numbers, units (ns, us, ms, s, min), + - * / and ( ) are understood"
            )
        } else {
            let rest = self.rest;
            format!(
                "\"{text}\" is not understood from \"{rest}\" on; numbers, units (ns, us, ms, s, min), \
                 + - * / and ( ) are"
            )
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, sign: char) -> bool {
        self.skip_space();
        let Some(rest) = self.rest.strip_prefix(sign) else { return false };
        self.rest = rest;
        true
    }

    fn sum(&mut self) -> Result<Quantity, String> {
        let mut left = self.product()?;
        loop {
            let sign = if self.take('+') {
                1.0
            } else if self.take('-') {
                -1.0
            } else {
                return Ok(left);
            };
            let right = self.product()?;
            if left.time != right.time {
                return Err(format!("\"{}\" adds a time and a number", self.text));
            }
            left.value += sign * right.value;
        }
    }

    fn product(&mut self) -> Result<Quantity, String> {
        let mut left = self.factor()?;
        loop {
            if self.take('*') {
                let right = self.factor()?;
                left = Quantity { value: left.value * right.value, time: left.time + right.time };
            } else if self.take('/') {
                let right = self.factor()?;
                if right.value == 0.0 {
                    return Err(format!("\"{}\" divides by zero", self.text));
                }
                left = Quantity { value: left.value / right.value, time: left.time - right.time };
            } else {
                return Ok(left);
            }
        }
    }

    fn factor(&mut self) -> Result<Quantity, String> {
        if self.take('-') {
            let found = self.factor()?;
            return Ok(Quantity { value: -found.value, ..found });
        }
        if self.take('(') {
            let found = self.sum()?;
            return if self.take(')') { Ok(found) } else { Err(self.wrong()) };
        }
        let digits = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
        let (number, after) = self.rest.split_at(digits.unwrap_or(self.rest.len()));
        let value: f64 = number.replace('_', "").parse().map_err(|_| self.wrong())?;
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, rest) = after.split_at(letters);
        let (factor, time) = match unit {
            "" => (1.0, 0),
            "ns" => (1.0, 1),
            "us" => (1e3, 1),
            "ms" => (1e6, 1),
            "s" => (1e9, 1),
            "min" => (60e9, 1),
            _ => {
                return Err(format!(
                    "\"{}\": unknown unit \"{unit}\"; a unit is one of ns, us, ms, s, min",
                    self.text
                ));
            }
        };
        self.rest = rest;
        Ok(Quantity { value: value * factor, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_their_dimension() {
        assert_eq!(duration_ns("1s / 25"), Ok(40e6));
        assert_eq!(duration_ns("0.6 * (1s/25) + 2us"), Ok(24_002_000.0));
        assert_eq!(number("-2 + 3 * 4"), Ok(10.0));
        assert_eq!(number("100ms / 4ms"), Ok(25.0));
        assert_eq!(duration_ns("0"), Ok(0.0));
    }

    #[test]
    fn an_expression_without_sense_is_refused() {
        for text in ["", "1 +", "4 parsecs", "1s + 1", "1 / 0", "(1", "2 3"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(duration_ns("5").is_err());
        assert!(number("5ms").is_err());
    }
}
