//! Loss policies and failures: nothing is lost in silence.
