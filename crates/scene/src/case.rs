use crate::Tolerance;

/// One way to try a scene: parameters that differ from its defaults, and outputs that are judged by other tolerances.
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
    /// Name, unique among the cases of the scene.
    pub name: String,
    /// Parameters, as `(name, value)`.
    pub params: Vec<(String, String)>,
    /// Tolerances of outputs, by name; the scene's own hold for the others.
    pub tolerances: Vec<(String, Tolerance)>,
}

impl Case {
    /// A case with everything as the scene has it.
    #[must_use]
    pub fn new(name: &str) -> Case {
        Case { name: name.into(), params: Vec::new(), tolerances: Vec::new() }
    }

    /// The same with one parameter more.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "reads well with numbers")]
    pub fn param(mut self, name: &str, value: impl ToString) -> Case {
        self.params.push((name.into(), value.to_string()));
        self
    }
}

/// The scene as it is.
impl Default for Case {
    fn default() -> Case {
        Case::new("default")
    }
}
