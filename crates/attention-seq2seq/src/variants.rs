//! Enums whose variants contain modules or settings of modules.

/// Implements `Module` for an enum of modules, which delegates to the module of its variant.
///
/// `Module` is not derived, because that would add the name of the variant to the names of the parameters: a saved
/// model should have the names of the module inside, `decoder.attention.score...`.
macro_rules! module_of_variants {
    ($name:ident { $($variant:ident),+ $(,)? }) => {
        impl Module for $name {
            fn collect_devices(&self, devices: Devices) -> Devices {
                match self { $(Self::$variant(module) => module.collect_devices(devices),)+ }
            }

            fn fork(self, device: &Device) -> Self {
                match self { $(Self::$variant(module) => Self::$variant(module.fork(device)),)+ }
            }

            fn to_device(self, device: &Device) -> Self {
                match self {
                    $(Self::$variant(module) => Self::$variant(module.to_device(device)),)+
                }
            }

            fn train(self) -> Self {
                match self { $(Self::$variant(module) => Self::$variant(module.train()),)+ }
            }

            fn valid(&self) -> Self {
                match self { $(Self::$variant(module) => Self::$variant(module.valid()),)+ }
            }

            fn materialize(self) -> Self {
                match self { $(Self::$variant(module) => Self::$variant(module.materialize()),)+ }
            }

            fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
                match self { $(Self::$variant(module) => module.visit(visitor),)+ }
            }

            fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
                match self { $(Self::$variant(module) => Self::$variant(module.map(mapper)),)+ }
            }
        }

        impl ModuleDisplayDefault for $name {
            fn content(&self, content: Content) -> Option<Content> {
                match self { $(Self::$variant(module) => module.content(content),)+ }
            }

            fn num_params(&self) -> usize {
                Module::num_params(self)
            }
        }

        impl ModuleDisplay for $name {}
    };
}

/// An expression evaluated for either of two models in an enum with these variants.
macro_rules! of_either {
    ($either:expr, $model:ident => $result:expr) => {
        match $either {
            Self::Rnn($model) => $result,
            Self::Transformer($model) => $result,
        }
    };
}

pub(crate) use module_of_variants;
pub(crate) use of_either;
