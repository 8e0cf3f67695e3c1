//! Limits on the size of graphs.

use tensortap_scene::SceneError;

/// Limit on the tasks of a scene that divides its work into tiles or pages: a few seconds of dispatching.
/// Without the limit, harmless-looking sizes could cause runs of hours.
pub(crate) const MAX_TASKS: u64 = 2_000_000;

/// Refuses a parameter that divides the work into more than [`MAX_TASKS`] tasks.
pub(crate) fn check_tasks(
    scene: &'static str,
    (name, value): (&str, u64),
    tasks: u64,
) -> Result<(), SceneError> {
    if tasks <= MAX_TASKS {
        return Ok(());
    }
    Err(SceneError::BadParam {
        scene,
        name: name.into(),
        value: value.to_string(),
        expected: format!(
            "the graph would have {tasks} tasks, and may have {MAX_TASKS}; use a larger `{name}` or smaller sizes"
        ),
    })
}
