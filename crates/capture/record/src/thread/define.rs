//! Definitions: names, scopes, kernels, queues, steps and modules. Each is recorded once and then has a
//! number.

use super::*;

impl ThreadRecorder {
    /// The number of a text.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn string(&mut self, text: &str) -> Result<StringId, RecordError> {
        self.core.check()?;
        if text.is_empty() {
            return Ok(StringId::NONE);
        }
        if let Some(&id) = self.texts.get(text) {
            return Ok(StringId(id));
        }
        let (id, is_defined) = self.core.string(&mut self.lane, text);
        if self.texts.len() >= CACHED_TEXTS {
            self.texts.clear();
        }
        if is_defined {
            self.texts.insert(text.into(), id);
        }
        Ok(StringId(id))
    }

    /// The number of a scope inside of another.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn scope(&mut self, name: &str, parent: ScopeId) -> Result<ScopeId, RecordError> {
        let name = self.string(name)?.0;
        let key = Key::Scope { name, parent: parent.0 };
        Ok(ScopeId(
            self.core.define(&key, &mut self.lane, |lane, id| lane.define_scope(id, name, parent.0)).0,
        ))
    }

    /// The number of a kernel with only a name.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn kernel(&mut self, name: &str) -> Result<KernelId, RecordError> {
        self.define_kernel(&KernelInfo { name, ..KernelInfo::default() })
    }

    /// The number of a kernel. The first call defines the names of its arguments.
    ///
    /// # Errors
    /// With more than 65,535 arguments. See also [`ThreadRecorder`].
    pub fn define_kernel(&mut self, kernel: &KernelInfo<'_>) -> Result<KernelId, RecordError> {
        let &KernelInfo { name: text, module, args } = kernel;
        if args.len() > MAX_RECORD_ARGS as usize {
            let remedy = "declare at most 65535";
            return Err(RecordError::BadArgument { what: "arguments", value: args.len() as u64, remedy });
        }
        let name = self.string(text)?.0;
        let args = args.iter().map(|&(name, kind)| {
            let name = self.string(name)?.0;
            Ok(KernelArg { name, kind: KernelArg::tag(kind), ..KernelArg::default() })
        });
        let args = args.collect::<Result<Vec<_>, RecordError>>()?;
        let key = Key::Kernel { name, module: module.0 };
        let (id, _) = self.core.define(&key, &mut self.lane, |lane, func_id| {
            let (module, args) = (module.0, &args[..]);
            lane.define_kernel(&KernelDefinition { func_id, name, module, core_type: None, args })
        });
        if let Some(meant) = &self.core.kernels {
            meant.see(id, text);
        }
        Ok(KernelId(id))
    }

    /// The number of a queue or stream.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn queue(&mut self, name: &str) -> Result<QueueId, RecordError> {
        let name = self.string(name)?.0;
        let define = |lane: &mut Lane, id| lane.define(QueueRecord { id, name, ..QueueRecord::default() });
        Ok(QueueId(self.core.define(&Key::Queue { name }, &mut self.lane, define).0))
    }

    /// The number of a step, which begins with the first call.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn step(&mut self, name: &str) -> Result<StepId, RecordError> {
        let name = self.string(name)?.0;
        let define = |lane: &mut Lane, id| {
            lane.define(StepRecord { id, name, started_ns: now_ns(), ..StepRecord::default() })
        };
        Ok(StepId(self.core.define(&Key::Step { name }, &mut self.lane, define).0))
    }

    /// The number of a module with its size and `xxh3_128_tree4k`; zero if unknown.
    ///
    /// # Errors
    /// See [`ThreadRecorder`].
    pub fn module(&mut self, name: &str, bytes: u64, hash: u128) -> Result<ModuleId, RecordError> {
        let name = self.string(name)?.0;
        let hash = hash.to_le_bytes();
        let define = |lane: &mut Lane, id| {
            lane.define(ModuleRecord { id, name, bytes, hash, ..ModuleRecord::default() })
        };
        Ok(ModuleId(self.core.define(&Key::Module { name }, &mut self.lane, define).0))
    }

    /// The number of a module whose image is stored in the dump, once per content. A different image, options
    /// or device make a different module. The image is stored at every level. If it is lost, its bytes are
    /// counted, and the dump says that it has no image.
    ///
    /// # Errors
    /// With an image of more than 4 GiB. See also [`ThreadRecorder`].
    pub fn module_image(&mut self, module: &ModuleImage<'_>) -> Result<ModuleId, RecordError> {
        let &ModuleImage { name, kind, options, device, image } = module;
        let bytes = image.len() as u64;
        if bytes > MAX_IMAGE_BYTES {
            let remedy = "pass an image of at most 4 GiB";
            return Err(RecordError::BadArgument { what: "bytes of an image", value: bytes, remedy });
        }
        let name = self.string(name)?.0;
        let (options, device) = (self.string(options)?.0, self.string(device)?.0);
        let hash = content_hash(image);
        let key = Key::Image { name, options, device, kind: kind as u8, hash };
        let define = |lane: &mut Lane, id| {
            let is_sent = lane.send_image(kind, hash, image) == Outcome::Recorded;
            let flags = RECORD_EXTENDED | if is_sent { RECORD_HAS_PAYLOAD } else { 0 };
            let (hash, image_kind) = (hash.to_le_bytes(), kind as u8);
            let module =
                ModuleRecord { flags, id, name, bytes, hash, options, device, ..ModuleRecord::default() };
            lane.define(ModuleRecord { image_kind, ..module })
        };
        Ok(ModuleId(self.core.define(&key, &mut self.lane, define).0))
    }
}
