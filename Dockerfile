# voxcli on a CPU, as a server or for any other command. From this folder:
#
#     docker build -t voxcli --build-arg TORCH_INDEX=ADDRESS .
#     docker run --rm voxcli speak "The ferry leaves at noon." -o - > noon.wav
#     docker run -p 127.0.0.1:8091:8091 -e VOXCLI_API_KEY=a-long-secret -v voices:/data voxcli
#
# ADDRESS is at the end of the command that pytorch.org shows for Linux, Pip and CPU. Without it torch comes with
# CUDA, 3 GB instead of 190 MB. constraints.txt has its version. EXTRAS are those of the README.
FROM python:3.12-slim-bookworm AS build
ARG EXTRAS=serve
ARG TORCH_INDEX=
# the kernels for the CPU are compiled here
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
RUN python -m venv --without-pip /opt/voxcli
WORKDIR /src
COPY constraints.txt .
RUN pip --python /opt/voxcli/bin/python install --no-cache-dir torch -c constraints.txt \
    ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}
COPY pyproject.toml setup.py README.md LICENSE NOTICE ./
COPY docs/man docs/man
COPY docs/completions docs/completions
COPY voxcli voxcli
RUN pip --python /opt/voxcli/bin/python install --no-cache-dir ".[$EXTRAS]" -c constraints.txt

FROM python:3.12-slim-bookworm
RUN useradd --uid 10001 --create-home voxcli \
    && install -d -o voxcli /data /cache /work
COPY --from=build /opt/voxcli /opt/voxcli
# saved voices are in /data, downloaded models and what is compiled for them in /cache
ENV PATH=/opt/voxcli/bin:$PATH \
    XDG_DATA_HOME=/data \
    XDG_CACHE_HOME=/cache \
    HF_HOME=/cache/huggingface \
    TRITON_CACHE_DIR=/cache/triton
USER 10001
VOLUME ["/data", "/cache"]
WORKDIR /work
EXPOSE 8091
# 200 once the model is loaded; it needs no key
HEALTHCHECK --interval=5s --timeout=3s --start-period=120s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8091/health', timeout=2)"]
ENTRYPOINT ["voxcli"]
CMD ["serve", "--host", "0.0.0.0", "--no-socket"]
