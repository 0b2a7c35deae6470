//! One declaration for each operation.

/// Declares the operations of a crate. The list defines
///
/// - the trait of operations, a [backend extension](burn::backend::backend_extension): each method runs the kernel of
///   the backend, if there is one, or else the definition;
/// - the table of kernels, with a field for each operation that may have one, and `NONE` without any;
/// - the trait for `Autodiff`, where a kernel is a single node of the graph;
/// - the names in `ATTENTION_KERNELS`, see [`paths`](crate::paths);
/// - the tables for the CPU and for GPUs, from the modules named for each operation.
///
/// | section | operations |
/// | --- | --- |
/// | `kernels` | with a kernel that has gradients: `saves` names the saved state and the number of tensors |
/// | `constants` | with a kernel whose result has no gradient |
/// | `definitions` | without a kernel, composed of Burn's operations and differentiated with them |
/// | `others` | without an inputs struct, with a body and another one for `Autodiff<B, C>` |
///
/// A `definition` is a function from the inputs to the results, differentiated operation by operation; a `node` returns
/// a [`Kernel`](super::kernel::Kernel), with whose gradient it is also a single node of the graph. The name of an
/// operation is that of the method, unless `paths` lists others and a function that chooses one by the inputs.
#[macro_export]
macro_rules! operations {
    (
        $(#[$about:meta])*
        pub trait $ops:ident: $backend:ident, $table:ident in $kernels:ident;
        paths $paths:ident $(above $below:path)?;
        cpu runs on $runs_on:expr;
        kernels { $(
            $(#[$doc:meta])*
            fn $name:ident($inputs:ident) -> $output:ident $(and $beside:ident)?
                saves [$saved:ty; $count:literal], $how:ident $by:path
                $(, paths [$($path:ident),*] by $of:path)?;
                cpu [$($cpu:tt)*] $(gpu [$($gpu:tt)*])?
        )* }
        constants { $(
            $(#[$constant_doc:meta])*
            fn $constant:ident($constant_inputs:ident) definition $constant_by:path
                $(, paths [$($constant_path:ident),*] by $constant_of:path)?;
                cpu $constant_cpu:path;
        )* }
        definitions { $(
            $(#[$composed_doc:meta])*
            fn $composed:ident($composed_inputs:ident) definition $composed_by:path;
        )* }
        others { $(
            $(#[$other_doc:meta])*
            fn $other:ident($($argument:tt)*) { $($body:tt)* } trained { $($trained:tt)* }
        )* }
    ) => {
        /// The operations that may have kernels.
        #[doc(hidden)]
        pub static $paths: $crate::paths::Operations = $crate::paths::Operations::new(
            &[
                $($crate::operations!(@names $name $([$($path),*])?),)*
                $($crate::operations!(@names $constant $([$($constant_path),*])?),)*
            ],
            $crate::operations!(@below $($below)?),
        );

        /// The kernels of a backend, one line per operation that may have one.
        pub struct $table<B: ::burn::backend::Backend> {
            /// Whether an operation's kernel runs on a device, with tensors of a type; otherwise the definition does.
            pub(crate) runs_on: fn(
                &::burn::backend::tensor::Device<B>,
                ::burn::tensor::DType,
                $crate::paths::Operation,
            ) -> bool,
            $(pub(crate) $name: Option<
                $crate::harness::kernel::Kernel<B, $inputs<B>, ($output<B> $(, $beside<B>)?), $saved, $count>,
            >,)*
            $(pub(crate) $constant: Option<
                fn($constant_inputs<B>) -> ::burn::backend::tensor::FloatTensor<B>,
            >,)*
        }

        impl<B: ::burn::backend::Backend> $table<B> {
            /// No kernels: every operation is composed.
            pub(crate) const NONE: Self = Self {
                runs_on: |_, _, _| false,
                $($name: None,)*
                $($constant: None,)*
            };
        }

        /// The kernels for a backend whose tensors lie in this process's memory.
        pub(crate) const fn cpu_kernels<B: $crate::harness::host::CpuBackend>() -> $table<B> {
            $table {
                runs_on: $runs_on,
                $($name: $crate::harness::kernel::kernel!($($cpu)*),)*
                $($constant: Some($constant_cpu),)*
            }
        }

        /// The kernels for GPUs.
        #[cfg(feature = "cubecl-backend")]
        #[allow(dead_code, reason = "where there is none")]
        pub(crate) const GPU_KERNELS: $table<burn_cubecl::CubeBackend> = $table {
            $($($name: $crate::harness::kernel::kernel!($($gpu)*),)?)*
            ..$table::NONE
        };

        $(#[$about])*
        #[::burn::backend::backend_extension(
            Flex: cfg(feature = "flex"),
            NdArray: cfg(feature = "ndarray"),
            Cube: cfg(feature = "cubecl-backend"),
            Remote: cfg(feature = "remote"),
            Autodiff: cfg(feature = "autodiff"),
            Fusion: cfg(feature = "fusion"),
        )]
        pub trait $ops: $backend {
            $(
                $(#[$doc])*
                #[fusion(default)]
                fn $name(#[extension_type] inputs: $inputs<Self>) -> ($output<Self> $(, $beside<Self>)?) {
                    let operation = $crate::operations!(@operation inputs, $paths, $name $(, $of)?);
                    match $crate::operations!(@chosen Self, $kernels, $name, operation, inputs, $count) {
                        Some(kernel) => (kernel.infer)(inputs),
                        None => $crate::operations!(@infer $how, $by, inputs),
                    }
                }
            )*
            $(
                $(#[$constant_doc])*
                #[fusion(default)]
                fn $constant(#[extension_type] inputs: $constant_inputs<Self>) -> FloatTensor<Self> {
                    let operation = $crate::operations!(@operation inputs, $paths, $constant $(, $constant_of)?);
                    match $crate::operations!(@chosen Self, $kernels, $constant, operation, inputs, 1) {
                        Some(kernel) => kernel(inputs),
                        None => $constant_by(inputs),
                    }
                }
            )*
            $(
                $(#[$composed_doc])*
                #[fusion(default)]
                fn $composed(#[extension_type] inputs: $composed_inputs<Self>) -> FloatTensor<Self> {
                    $composed_by(inputs)
                }
            )*
            $(
                $(#[$other_doc])*
                #[fusion(default)]
                fn $other($($argument)*) -> FloatTensor<Self> {
                    $($body)*
                }
            )*
        }

        #[cfg(feature = "autodiff")]
        impl<B, C> $ops for $crate::harness::differentiate::Autodiff<B, C>
        where
            B: $ops,
            C: $crate::harness::differentiate::CheckpointStrategy,
        {
            $(
                fn $name(inputs: $inputs<Self>) -> ($output<Self> $(, $beside<Self>)?) {
                    let operation = $crate::operations!(@operation inputs, $paths, $name $(, $of)?);
                    let kernel = $crate::operations!(@chosen B, $kernels, $name, operation, inputs, $count);
                    $crate::operations!(@train $how, $by, kernel, inputs $(, $beside)?)
                }
            )*
            $(
                fn $constant(inputs: $constant_inputs<Self>) -> FloatTensor<Self> {
                    let inputs = $crate::harness::differentiate::off_graph::<B, C, _, 1>(inputs);
                    $crate::harness::differentiate::constant::<B, C>(B::$constant(inputs))
                }
            )*
            $(
                fn $other($($argument)*) -> FloatTensor<Self> {
                    $($trained)*
                }
            )*
        }
    };
    (@names $name:ident) => { &[stringify!($name)] };
    (@names $name:ident [$($path:ident),*]) => { &[$(stringify!($path)),*] };
    (@below) => { None };
    (@below $below:path) => { Some(&$below) };
    (@operation $inputs:ident, $paths:ident, $name:ident) => {{
        static OPERATION: ::std::sync::LazyLock<$crate::paths::Operation> =
            ::std::sync::LazyLock::new(|| $paths.named(stringify!($name)));
        *OPERATION
    }};
    (@operation $inputs:ident, $paths:ident, $name:ident, $of:path) => { $of(&$inputs) };
    (@chosen $of:ident, $kernels:ident, $name:ident, $operation:ident, $inputs:ident, $count:literal) => {
        $crate::paths::chosen::<$of, Self, _>(
            $operation,
            $of::$kernels.$name,
            $crate::harness::tracked::TrackedInputs::<Self, $count>::first(&$inputs),
            $of::$kernels.runs_on,
        )
    };
    (@infer definition, $by:path, $inputs:ident) => { $by($inputs) };
    (@infer node, $by:path, $inputs:ident) => { ($by().infer)($inputs) };
    (@train definition, $by:path, $kernel:ident, $inputs:ident $(, $beside:ident)?) => {
        match $kernel {
            Some(kernel) => $crate::operations!(@differentiate kernel, $inputs $(, $beside)?),
            None => $by($inputs),
        }
    };
    (@train node, $by:path, $kernel:ident, $inputs:ident) => {{
        let kernel = $kernel.unwrap_or($by());
        $crate::operations!(@differentiate kernel, $inputs)
    }};
    (@differentiate $kernel:ident, $inputs:ident) => {
        $crate::harness::differentiate::differentiate($kernel, $inputs, |output| (output, ())).0
    };
    (@differentiate $kernel:ident, $inputs:ident, $beside:ident) => {
        $crate::harness::differentiate::differentiate($kernel, $inputs, |results| results)
    };
}

pub use crate::operations;
