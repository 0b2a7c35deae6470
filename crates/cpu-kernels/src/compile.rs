//! Kernels compiled in the crate that has them.

/// Declares the entry points of a crate's kernels, the trait `Compiled`, and compiles them for `f32` and `f64`.
#[doc(hidden)]
#[macro_export]
macro_rules! compiled {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? = $kernel:path;)*) => {
        /// The entry points of the kernels.
        ///
        /// Its only purpose is to have them compiled here. A generic function would be compiled again, for each
        /// instruction set and in dev builds without optimisation, in every crate that calls it.
        pub(crate) trait Compiled: Sized {
            $(fn $name($($argument: $type),*) $(-> $output)?;)*
        }

        $crate::compiled!(impl f32 { $(fn $name($($argument: $type),*) $(-> $output)? = $kernel;)* });
        $crate::compiled!(impl f64 { $(fn $name($($argument: $type),*) $(-> $output)? = $kernel;)* });
    };
    (impl $float:ident { $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $output:ty)? = $kernel:path;)* }) => {
        impl Compiled for $float {
            $(fn $name($($argument: $type),*) $(-> $output)? {
                $kernel($($argument),*)
            })*
        }
    };
}
