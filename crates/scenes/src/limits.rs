//! How large a graph a scene builds.

use tensortap_scene::SceneError;

/// Most tasks of a scene that divides work into tiles or pages: seconds of dispatching. Beyond it, sizes that look
/// harmless one by one make runs of hours.
pub(crate) const MAX_TASKS: u64 = 2_000_000;

/// Refuses a parameter, the side of a piece, that cuts the work into more tasks than [`MAX_TASKS`].
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
