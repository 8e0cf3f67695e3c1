//! The part of Python's literals that a header of `.npy` uses.

use super::{MAX_NUMPY_DIMS, NpyRefusal};

/// What the dictionary must have.
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
        return Err("its header goes on after its dictionary".into());
    }
    match (descr, fortran_order, shape) {
        (Some(descr), Some(fortran_order), Some(shape)) => Ok(Dictionary { descr, fortran_order, shape }),
        _ => Err("its header lacks descr, fortran_order or shape".into()),
    }
}

/// Text not read yet.
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

    /// Text in quotes. Nothing that we know has a backslash in it.
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
                return Err("it has more dimensions than numpy knows".into());
            }
            shape.push(self.number()?);
            if !self.take(',') && !self.at(')') {
                return Err("its shape is not a tuple".into());
            }
        }
        Ok(shape)
    }

    /// A size. Python 2 wrote an `L` behind it.
    fn number(&mut self) -> Result<u64, NpyRefusal> {
        self.text = self.text.trim_start();
        let end = self.text.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.text.len());
        let (digits, rest) = self.text.split_at(end);
        self.text = rest.strip_prefix('L').unwrap_or(rest);
        digits.parse().map_err(|_| NpyRefusal::Damaged("its shape has a size that is none".into()))
    }
}
