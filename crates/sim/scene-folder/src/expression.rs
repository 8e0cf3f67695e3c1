//! Expressions in `scene.toml`: whole numbers, parameters, and arithmetic.

use std::fmt;

/// A whole number, computed from parameters: `n`, `2 * rows`, `(n + 15) / 16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A number.
    Number(i128),
    /// A parameter.
    Param(String),
    /// Two operands and the operator.
    Binary(Box<Expression>, char, Box<Expression>),
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// The part that is not valid.
    pub fn parse(text: &str) -> Result<Expression, String> {
        let mut parser = Parser { rest: text.trim(), depth: 0 };
        let expression = parser.sum()?;
        if parser.rest.is_empty() { Ok(expression) } else { Err(format!("unexpected `{}`", parser.rest)) }
    }

    /// Appends the parameters of the expression.
    pub fn params(&self, into: &mut Vec<String>) {
        match self {
            Expression::Number(_) => {}
            Expression::Param(name) => into.push(name.clone()),
            Expression::Binary(one, _, other) => {
                one.params(into);
                other.params(into);
            }
        }
    }

    /// Computes the value. Divisions round toward zero.
    ///
    /// # Errors
    ///
    /// If a parameter is unknown, a divisor is zero, or a number is too large.
    pub fn value(&self, param: &dyn Fn(&str) -> Option<u64>) -> Result<i128, String> {
        match self {
            Expression::Number(number) => Ok(*number),
            Expression::Param(name) => {
                param(name).map(i128::from).ok_or_else(|| format!("unknown whole-number parameter `{name}`"))
            }
            Expression::Binary(one, operator, other) => {
                let (one, other) = (one.value(param)?, other.value(param)?);
                let value = match operator {
                    '+' => one.checked_add(other),
                    '-' => one.checked_sub(other),
                    '*' => one.checked_mul(other),
                    '/' => one.checked_div(other),
                    _ => one.checked_rem(other),
                };
                value.ok_or_else(|| format!("cannot compute {one} {operator} {other}"))
            }
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Number(number) => write!(f, "{number}"),
            Expression::Param(name) => f.write_str(name),
            Expression::Binary(one, operator, other) => write!(f, "({one} {operator} {other})"),
        }
    }
}

/// Limit on nested brackets, to bound the recursion.
const MAX_DEPTH: usize = 64;

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            left = Expression::Binary(Box::new(left), operator, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.operand()?;
        while let Some(operator) = self.take(&['*', '/', '%']) {
            left = Expression::Binary(Box::new(left), operator, Box::new(self.operand()?));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expression, String> {
        if self.take(&['(']).is_some() {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err("the expression has too many nested brackets".into());
            }
            let inner = self.sum()?;
            self.depth -= 1;
            return self.take(&[')']).map(|_| inner).ok_or_else(|| "a `)` is missing".into());
        }
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word
                .parse()
                .map(Expression::Number)
                .map_err(|_| format!("`{word}` is not a whole number"));
        }
        if word.is_empty() {
            Err("a number or a parameter is missing".into())
        } else {
            Ok(Expression::Param(word.into()))
        }
    }

    fn take(&mut self, any: &[char]) -> Option<char> {
        let first = self.rest.chars().next().filter(|c| any.contains(c))?;
        self.rest = self.rest[first.len_utf8()..].trim_start();
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i128, String> {
        Expression::parse(text)?.value(&|name| (name == "n").then_some(10))
    }

    #[test]
    fn operators_bind_as_in_c() {
        assert_eq!(value("2 + 3 * n - 1"), Ok(31));
        assert_eq!(value("(n + 15) / 16 * 16 % 7"), Ok(2));
        assert_eq!(value("7 - 3 - 2"), Ok(2));
        assert_eq!(value("n"), Ok(10));
    }

    #[test]
    fn invalid_expressions_are_errors() {
        for bad in ["", "n +", "(n", "2n", "n / 0", "m", "n ^ 2", "-1"] {
            assert!(value(bad).is_err(), "{bad}");
        }
        assert!(Expression::parse(&"(".repeat(100_000)).is_err());
    }
}
