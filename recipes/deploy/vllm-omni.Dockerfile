# vLLM-Omni with VoxCPM2's package: one minor of vllm and vllm-omni, which else break each other.
FROM vllm/vllm-openai:v0.30.0
RUN pip install --no-cache-dir vllm==0.30.0 vllm-omni==0.30.0 voxcpm==2.0.3 ninja==1.13.0
RUN useradd --create-home --uid 10001 omni && mkdir /models && chown omni /models
ENV HF_HOME=/models
USER 10001
EXPOSE 8091
ENTRYPOINT ["vllm", "serve"]
