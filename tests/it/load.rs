//! Many runs at once, under memory pressure.
