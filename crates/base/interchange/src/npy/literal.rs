//! Parses the subset of Python literals in a header of `.npy`.

use super::{MAX_NUMPY_DIMS, NpyRefusal};

/// The required entries of the dictionary.
pub(super) struct Dictionary {
    pub descr: String,
    pub fortran_order: bool,
    pub shape: Vec<u64>,
}

pub(super) fn parse(text: &str) -> Result<Dictionary, NpyRefusal> {
    let mut rest = Rest { text: text.trim() };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    rest.expect('{')?;
    while !rest.take('}') {
        let key = rest.string()?;
        rest.expect(':')?;
        match key {
            "descr" if rest.at('[') => return Err(NpyRefusal::DType("a structure".into())),
            "descr" => descr = Some(rest.string()?.to_string()),
            "fortran_order" => fortran_order = Some(rest.truth()?),
            "shape" => shape = Some(rest.shape()?),
            other => return Err(NpyRefusal::Damaged(format!("its header has the unknown key {other:?}"))),
        }
        if !rest.take(',') && !rest.at('}') {
            return Err("its header is not a dictionary".into());
        }
    }
    if !rest.text.trim().is_empty() {
        return Err("its header contains text after the dictionary".into());
    }
    match (descr, fortran_order, shape) {
        (Some(descr), Some(fortran_order), Some(shape)) => Ok(Dictionary { descr, fortran_order, shape }),
        _ => Err("its header lacks descr, fortran_order or shape".into()),
    }
}

/// The rest of the text.
struct Rest<'a> {
    text: &'a str,
}

impl<'a> Rest<'a> {
    fn at(&mut self, letter: char) -> bool {
        self.text = self.text.trim_start();
        self.text.starts_with(letter)
    }

    fn take(&mut self, letter: char) -> bool {
        let found = self.at(letter);
        if found {
            self.text = &self.text[letter.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, letter: char) -> Result<(), NpyRefusal> {
        let missing = || NpyRefusal::Damaged(format!("its header lacks a `{letter}`"));
        if self.take(letter) { Ok(()) } else { Err(missing()) }
    }

    /// A quoted text. No supported value contains a backslash.
    fn string(&mut self) -> Result<&'a str, NpyRefusal> {
        let quote = if self.take('\'') { '\'' } else { self.expect('"').map(|()| '"')? };
        let (inside, rest) = self.text.split_once(quote).ok_or("its header has text without an end")?;
        self.text = rest;
        Ok(inside)
    }

    fn truth(&mut self) -> Result<bool, NpyRefusal> {
        self.text = self.text.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.text.strip_prefix(word) {
                self.text = rest;
                return Ok(value);
            }
        }
        Err("its fortran_order is neither True nor False".into())
    }

    fn shape(&mut self) -> Result<Vec<u64>, NpyRefusal> {
        self.expect('(')?;
        let mut shape = Vec::new();
        while !self.take(')') {
            if shape.len() == MAX_NUMPY_DIMS {
                return Err("it has more dimensions than numpy supports".into());
            }
            shape.push(self.number()?);
            if !self.take(',') && !self.at(')') {
                return Err("its shape is not a tuple".into());
            }
        }
        Ok(shape)
    }

    /// A size, with an optional `L` suffix as written by Python 2.
    fn number(&mut self) -> Result<u64, NpyRefusal> {
        self.text = self.text.trim_start();
        let end = self.text.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.text.len());
        let (digits, rest) = self.text.split_at(end);
        self.text = rest.strip_prefix('L').unwrap_or(rest);
        digits.parse().map_err(|_| NpyRefusal::Damaged("its shape has an invalid size".into()))
    }
}
