//! Puts the beginning of `becalm run` (`starter/quick.c` of `becalm-audit`) before that of the C library, on
//! machines that have it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(quick)");
    if let Ok(quick) = std::env::var("DEP_BECALM_QUICK") {
        println!("cargo::rerun-if-changed={quick}");
        println!("cargo::rustc-cfg=quick");
        println!("cargo::rustc-link-arg-bin=becalm={quick}");
        println!("cargo::rustc-link-arg-bin=becalm=-Wl,-e,becalm_start");
    }
}
