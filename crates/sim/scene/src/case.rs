use crate::Tolerance;

/// A test case of a scene: parameters that differ from the defaults, and tolerances for its outputs.
///
/// ```
/// use tensortap_scene::Case;
///
/// let odd = Case::new("odd sizes").param("n", 1023);
/// assert_eq!((odd.name.as_str(), odd.params.len()), ("odd sizes", 1));
/// assert_eq!(Case::default().name, "default");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The name, unique among the cases of the scene.
    pub name: String,
    /// Parameters as `(name, value)`.
    pub params: Vec<(String, String)>,
    /// Tolerances of outputs, by name. Other outputs use the scene's tolerances.
    pub tolerances: Vec<(String, Tolerance)>,
}

impl Case {
    /// A case without changes.
    #[must_use]
    pub fn new(name: &str) -> Case {
        Case { name: name.into(), params: Vec::new(), tolerances: Vec::new() }
    }

    /// Adds a parameter.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "reads well with numbers")]
    pub fn param(mut self, name: &str, value: impl ToString) -> Case {
        self.params.push((name.into(), value.to_string()));
        self
    }
}

/// The scene with its default parameters.
impl Default for Case {
    fn default() -> Case {
        Case::new("default")
    }
}
