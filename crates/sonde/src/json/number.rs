//! Numbers in ECMAScript's notation (ECMA-262, Number::toString).

/// Writes a number as JavaScript does; what is no number in JSON becomes `null`.
pub fn write_number(value: f64, out: &mut String) {
    if value.is_finite() {
        // Minus zero comes out as `0`, as it must. (Rust's own shortest digits would break ties upwards, ECMAScript
        // breaks them to the even digit.)
        out.push_str(ryu_js::Buffer::new().format_finite(value));
    } else {
        out.push_str("null");
    }
}
