//! Kernels compiled in their own crate.

/// Declares the entry points of a crate's kernels, the trait `Compiled`, and compiles them: those for `f64` only with
/// the crate's feature `f64`, those marked `#[gradient]` only with its feature `gradients`.
#[doc(hidden)]
#[macro_export]
macro_rules! compiled {
    ($($(#[$mark:ident])? fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? = $kernel:path;)*) => {
        /// The entry points of the kernels.
        ///
        /// Its only purpose is to compile them here. A generic function would be compiled again in every crate that
        /// calls it, for each instruction set, and without optimisation in dev builds.
        pub(crate) trait Compiled: Sized {
            $(fn $name($($argument: $type),*) $(-> $output)?;)*
        }

        $crate::compiled!(
            impl f32 { $($([$mark])? fn $name($($argument: $type),*) $(-> $output)? = $kernel;)* }
        );
        $crate::compiled!(
            impl f64 { $([f64 $($mark)?] fn $name($($argument: $type),*) $(-> $output)? = $kernel;)* }
        );
    };
    (impl $float:ident {
        $($([$($mark:ident)*])? fn $name:ident($($argument:ident: $type:ty),*) $(-> $output:ty)? = $kernel:path;)*
    }) => {
        impl Compiled for $float {
            $(fn $name($($argument: $type),*) $(-> $output)? {
                $($($crate::compiled!(needs $mark);)*)?
                $kernel($($argument),*)
            })*
        }
    };
    // Without the feature, the code after it is unreachable.
    (needs gradient) => {
        if !cfg!(feature = "gradients") {
            panic!("expected the feature `gradients`: without it kernels have no backward pass");
        }
    };
    (needs f64) => {
        if !cfg!(feature = "f64") {
            panic!("expected the feature `f64`: without it no kernel computes in f64");
        }
    };
}
