# isopix with the pinned versions: docker build -t isopix .
# PyTorch is the build of the package index, for GPUs of NVIDIA; --build-arg TORCH_INDEX=URL takes another, as for CPUs alone.
# The folder of the run is the current one:
#   docker run --rm --gpus all -v "$PWD:/work" isopix pretrain igpt.digits --out runs/digits
FROM python:3.11-slim AS build
ARG TORCH=torch==2.13.0
ARG TORCH_INDEX=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/isopix
ENV PATH=/opt/isopix/bin:$PATH
WORKDIR /src
COPY constraints.txt ./
RUN pip install --constraint constraints.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} "$TORCH"
COPY pyproject.toml README.md LICENSE ./
COPY isopix isopix
RUN pip install --constraint constraints.txt . && isopix --version

FROM python:3.11-slim
# The runs belong to the user of the host: docker run --user "$(id -u):$(id -g)"
RUN useradd --create-home --uid 1000 isopix && mkdir /work && chown isopix /work
COPY --from=build /opt/isopix /opt/isopix
# Such a user has no home in the image: matplotlib and others write to /tmp, and downloads are kept with the runs.
ENV PATH=/opt/isopix/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 \
    ISOPIX_CACHE=/work/.isopix-cache HF_HOME=/work/.isopix-cache/huggingface
USER 1000
WORKDIR /work
VOLUME /work
ENTRYPOINT ["isopix"]
CMD ["--help"]
