use std::collections::BTreeMap;

use crate::SceneError;

/// The valid values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A whole number in an inclusive range.
    Int {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A parameter of a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamSpec {
    /// The name in `--param name=value`.
    pub name: &'static str,
    /// One line of description.
    pub about: &'static str,
    /// The default value.
    pub default: &'static str,
    /// The valid values.
    pub kind: ParamKind,
}

impl ParamSpec {
    /// A whole number.
    pub const fn int(
        name: &'static str,
        default: &'static str,
        min: u64,
        max: u64,
        about: &'static str,
    ) -> ParamSpec {
        ParamSpec { name, about, default, kind: ParamKind::Int { min, max } }
    }

    /// One of several words.
    pub const fn choice(
        name: &'static str,
        default: &'static str,
        words: &'static [&'static str],
        about: &'static str,
    ) -> ParamSpec {
        ParamSpec { name, about, default, kind: ParamKind::Choice(words) }
    }

    fn check(&self, value: &str) -> Result<(), String> {
        match self.kind {
            ParamKind::Int { min, max } => match value.parse::<u64>() {
                Ok(v) if (min..=max).contains(&v) => Ok(()),
                _ => Err(format!("a whole number from {min} to {max} is expected")),
            },
            ParamKind::Choice(words) if words.contains(&value) => Ok(()),
            ParamKind::Choice(words) => Err(format!("one of {} is expected", words.join(", "))),
        }
    }
}

/// Checked values of all parameters of a scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    values: BTreeMap<&'static str, String>,
}

impl Params {
    /// The defaults of `specs`, overridden by `given`. Every given name and value is checked. A name that is
    /// given twice is refused, because it is unclear which value counts.
    pub fn resolve<'a>(
        scene: &'static str,
        specs: &[ParamSpec],
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Params, SceneError> {
        let mut values: BTreeMap<_, _> = specs.iter().map(|s| (s.name, s.default.to_string())).collect();
        let mut seen = BTreeMap::new();
        for (name, value) in given {
            let Some(spec) = specs.iter().find(|s| s.name == name) else {
                let valid = if specs.is_empty() {
                    "none".to_string()
                } else {
                    specs.iter().map(|s| s.name).collect::<Vec<_>>().join(", ")
                };
                return Err(SceneError::UnknownParam { scene, name: name.into(), valid });
            };
            spec.check(value).map_err(|expected| SceneError::BadParam {
                scene,
                name: name.into(),
                value: value.into(),
                expected,
            })?;
            if let Some(first) = seen.insert(spec.name, value) {
                let (name, first, second) = (name.into(), first.into(), value.into());
                return Err(SceneError::RepeatedParam { scene, name, first, second });
            }
            values.insert(spec.name, value.to_string());
        }
        Ok(Params { values })
    }

    /// The value of a whole-number parameter.
    ///
    /// # Panics
    ///
    /// If the scene does not declare the parameter, which is a bug in the scene.
    pub fn int(&self, name: &str) -> u64 {
        self.word(name).parse().expect("checked against ParamKind::Int when resolved")
    }

    /// The value of a parameter as text.
    ///
    /// # Panics
    ///
    /// If the scene does not declare the parameter.
    pub fn word(&self, name: &str) -> &str {
        self.values.get(name).unwrap_or_else(|| panic!("the scene declares no parameter `{name}`"))
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(k, v)| (*k, v.as_str()))
    }

    /// `key=value` lines, the format in which parameters cross to the device.
    pub fn to_lines(&self) -> String {
        self.iter().map(|(k, v)| format!("{k}={v}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[ParamSpec] = &[
        ParamSpec::int("n", "4", 1, 8, "size"),
        ParamSpec::choice("shape", "chain", &["chain", "fan"], "shape"),
    ];

    #[test]
    fn given_values_override_defaults_and_are_checked() {
        let params = Params::resolve("s", SPECS, [("n", "8")]).unwrap();
        assert_eq!((params.int("n"), params.word("shape")), (8, "chain"));
        assert_eq!(params.to_lines(), "n=8\nshape=chain\n");
        for bad in [("n", "9"), ("n", "-1"), ("n", "x"), ("shape", "ring"), ("m", "1")] {
            assert!(Params::resolve("s", SPECS, [bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_parameter_given_twice_is_refused_with_both_values() {
        for second in ["3", "2"] {
            let error =
                Params::resolve("s", SPECS, [("n", "2"), ("shape", "fan"), ("n", second)]).unwrap_err();
            let (first, second) = ("2".to_string(), second.to_string());
            assert_eq!(error, SceneError::RepeatedParam { scene: "s", name: "n".into(), first, second });
        }
    }
}
